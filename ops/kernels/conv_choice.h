// Which kernel computes a convolution, and the call to it.
#pragma once

#include "core/vector.h"
#include "ops/kernels/conv_algorithms.h"

#include <cstdint>

namespace lacuna {

/// y = x * weight (+ bias); dx from dy and weight; dweight from x and dy.
enum class ConvProduct : std::uint8_t { forward, input_gradient, weight_gradient };

/// The namespaces of conv_algorithms.h, and gemm for 1x1 convolutions as one matrix product.
enum class ConvKernel : std::uint8_t { direct, winograd, gather, onednn, gemm };

/// The fastest kernel that serves the product correctly: a rule on shape, type and instruction set, from measurements
/// of bench/conv. All kernels but gemm compute in f32, direct also in f64: bf16 images are converted for them.
/// `vector`: bytes of a vector register.
ConvKernel choose_conv_kernel(const ConvShape& shape, ConvProduct product, DType type, int vector = vector_bytes);

// The products by the kernel that was chosen. Tensors as in conv_algorithms.h; with ConvKernel::gemm images may be
// bf16.
void conv_forward(ConvKernel kernel, const ConvShape& shape, const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Tensor& y);
void conv_input_gradient(ConvKernel kernel, const ConvShape& shape, const Tensor& dy, const Tensor& weight,
                         const Tensor& dx, bool add);
void conv_weight_gradient(ConvKernel kernel, const ConvShape& shape, const Tensor& x, const Tensor& dy,
                          const Tensor& dweight, bool add);

}  // namespace lacuna
