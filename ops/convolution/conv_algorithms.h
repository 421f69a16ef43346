// Convolutions on the CPU, by several algorithms. conv_choice.h chooses among them.
#pragma once

#include "core/tensor.h"
#include "ops/convolution/conv_kernels.h"

namespace lacuna {

// Each algorithm has three products: y = x * weight (+ bias), dx (+)= dy * weight, dweight (+)= dy * x. Operands are
// contiguous and of one type; bias may be undefined. On `meta` only workspaces are allocated.

/// Direct loops for f32, bf16 and f64: the reference, and the only kernel for f64.
namespace direct {
void forward(const ConvShape& shape, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y);
void gradient_of_input(const ConvShape& shape, const Tensor& dy, const Tensor& weight, const Tensor& dx, bool add);
void gradient_of_weight(const ConvShape& shape, const Tensor& x, const Tensor& dy, const Tensor& dweight, bool add);
}  // namespace direct

/// oneDNN's convolution primitives on NHWC images in f32, or in bf16 where the processor multiplies bf16
/// (onednn_matmul.h). Weight gradients of strided 1x1 convolutions are wrong unless channels and outputs are multiples
/// of 16 (oneDNN 2.6): choose_conv_kernel avoids them.
namespace onednn {
void forward(const ConvShape& shape, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y);
void gradient_of_input(const ConvShape& shape, const Tensor& dy, const Tensor& weight, const Tensor& dx, bool add);
void gradient_of_weight(const ConvShape& shape, const Tensor& x, const Tensor& dy, const Tensor& dweight, bool add);
}  // namespace onednn

/// f32, any shape: matrix products whose left rows are gathered from the images in place.
namespace gather {
void forward(const ConvShape& shape, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y);
void gradient_of_input(const ConvShape& shape, const Tensor& dy, const Tensor& weight, const Tensor& dx, bool add);
void gradient_of_weight(const ConvShape& shape, const Tensor& x, const Tensor& dy, const Tensor& dweight, bool add);
}  // namespace gather

/// f32 and bf16, 3x3, stride 1, padding 1, one group, channels and outputs in panels that are full or nearly so:
/// Winograd's minimal filtering F(4x4, 3x3), or F(2x2, 3x3) on very small images.
namespace winograd {
bool takes(const ConvShape& shape);
void forward(const ConvShape& shape, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y);
void gradient_of_input(const ConvShape& shape, const Tensor& dy, const Tensor& weight, const Tensor& dx, bool add);
void gradient_of_weight(const ConvShape& shape, const Tensor& x, const Tensor& dy, const Tensor& dweight, bool add);
}  // namespace winograd

/// 1x1 convolutions without padding, of one group: matrix products, in any type that gemm takes. Strided ones copy the
/// pixels that they read.
namespace pointwise {
bool takes(const ConvShape& shape);
void forward(const ConvShape& shape, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y);
void gradient_of_input(const ConvShape& shape, const Tensor& dy, const Tensor& weight, const Tensor& dx, bool add);
void gradient_of_weight(const ConvShape& shape, const Tensor& x, const Tensor& dy, const Tensor& dweight, bool add);
}  // namespace pointwise

}  // namespace lacuna
