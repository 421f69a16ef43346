// Which kernel computes a convolution, and the call to it.
#pragma once

#include "core/vector.h"
#include "ops/convolution/conv_algorithms.h"
#include "ops/products/onednn_matmul.h"

#include <cstdint>

namespace lacuna {

/// y = x * weight (+ bias); dx from dy and weight; dweight from x and dy.
enum class ConvProduct : std::uint8_t { forward, input_gradient, weight_gradient };

/// The namespaces of conv_algorithms.h.
enum class ConvKernel : std::uint8_t { direct, winograd, gather, onednn, pointwise };

/// The fastest kernel that serves the product correctly: a rule on shape, type and instruction set, from measurements
/// of bench/conv. Kernels compute in f32, direct also in f64, and bf16 images are converted for all that do not take
/// them (takes_type). `vector`: bytes of a vector register; `bf16_by`: as onednn::bf16_products.
ConvKernel choose_conv_kernel(const ConvShape& shape, ConvProduct product, DType type, int vector = vector_bytes,
                              onednn::Bf16Products bf16_by = onednn::bf16_products());

/// Whether the kernel reads and writes images of the type as they are.
bool takes_type(ConvKernel kernel, DType type);

// The products by the kernel that was chosen. Tensors as in conv_algorithms.h, of a type that the kernel takes.
void conv_forward(ConvKernel kernel, const ConvShape& shape, const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Tensor& y);
void conv_input_gradient(ConvKernel kernel, const ConvShape& shape, const Tensor& dy, const Tensor& weight,
                         const Tensor& dx, bool add);
void conv_weight_gradient(ConvKernel kernel, const ConvShape& shape, const Tensor& x, const Tensor& dy,
                          const Tensor& dweight, bool add);

}  // namespace lacuna
