#include "ops/convolution/conv_choice.h"

#include <algorithm>

namespace lacuna {
namespace {

/// oneDNN 2.6 computes wrong weight gradients of strided 1x1 convolutions if channels or outputs do not fill whole
/// vectors of 16.
bool onednn_is_wrong(const ConvShape& s, ConvProduct product) {
  constexpr std::int64_t vector = 16;
  return product == ConvProduct::weight_gradient && s.kernel_height == 1 && s.kernel_width == 1 && s.stride > 1 &&
         (s.channels % vector != 0 || s.outputs % vector != 0);
}

/// Whether Winograd's products in f32, a quarter as many, take less time than all in bf16 at twice the rate of f32: not
/// where its tiles of 4x4 reach far over the image, nor where transforms outweigh products.
bool winograd_beats_bf16(const ConvShape& s, ConvProduct product) {
  constexpr std::int64_t extent = 4;
  const std::int64_t tiles = s.images * ((s.height + extent - 1) / extent) * ((s.width + extent - 1) / extent);
  const bool fills_tiles = 9 * extent * extent * tiles <= 10 * s.images * s.height * s.width;
  const std::int64_t fewer = std::min(s.channels, s.outputs), more = std::max(s.channels, s.outputs);
  return winograd::takes(s) && fills_tiles &&
         (product == ConvProduct::weight_gradient || (fewer >= 128 && tiles >= 2 * more));
}

/// Whether transforms of the weights, as large on a small map as on any, are outweighed by the products that they save.
bool winograd_has_pixels(const ConvShape& s, ConvProduct product) {
  return s.images * s.height * s.width >= (product == ConvProduct::weight_gradient ? 128 : 64);
}

}  // namespace

bool takes_type(ConvKernel kernel, DType type) {
  return !is_half_type(type) || kernel == ConvKernel::pointwise ||
         (type == DType::bf16 &&
          (kernel == ConvKernel::winograd || (kernel == ConvKernel::onednn && onednn::multiplies_bf16())));
}

ConvKernel choose_conv_kernel(const ConvShape& s, ConvProduct product, DType type, int vector,
                              onednn::Bf16Products bf16_by) {
  if (type == DType::f64) return ConvKernel::direct;
  const bool is_pointwise = pointwise::takes(s);
  if (type == DType::bf16 && bf16_by != onednn::Bf16Products::none) {
    if (bf16_by == onednn::Bf16Products::vectors && winograd_beats_bf16(s, product)) return ConvKernel::winograd;
    // Products need no reordered weights, but sum over many pixels slowly. Those of groups are too small.
    const bool sums_many = product == ConvProduct::weight_gradient && s.images * s.height * s.width >= 32768;
    if (is_pointwise && (s.stride > 1 || !sums_many)) return ConvKernel::pointwise;
    if (s.groups == 1 && !onednn_is_wrong(s, product)) return ConvKernel::onednn;
  }
  if (winograd::takes(s)) return winograd_has_pixels(s, product) ? ConvKernel::winograd : ConvKernel::onednn;
  if (onednn_is_wrong(s, product)) return ConvKernel::gather;
  const bool forward = product == ConvProduct::forward, of_weight = product == ConvProduct::weight_gradient;
  const bool avx512 = vector == 64;  // oneDNN gains more from it than our kernels
  if (is_pointwise && s.stride == 1) {
    const std::int64_t pixels = s.images * s.height * s.width;
    if (forward && !is_half_type(type)) return ConvKernel::onednn;
    // A weight gradient sums over pixels. Few pixels stay in cache and many divide well however they are split; between
    // the two, the matrix product splits them badly.
    return of_weight && pixels >= 1024 && pixels < 32768 ? (avx512 ? ConvKernel::onednn : ConvKernel::gather)
                                                         : ConvKernel::pointwise;
  }
  if (is_pointwise) return of_weight && s.channels >= (avx512 ? 1024 : 256) ? ConvKernel::gather : ConvKernel::onednn;
  if (avx512) return s.groups > 1 && of_weight ? ConvKernel::gather : ConvKernel::onednn;
  return s.groups > 1 || (s.channels >= 64 && s.outputs >= 64) ? ConvKernel::gather : ConvKernel::onednn;
}

void conv_forward(ConvKernel kernel, const ConvShape& s, const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Tensor& y) {
  switch (kernel) {
    case ConvKernel::direct:
      return direct::forward(s, x, weight, bias, y);
    case ConvKernel::winograd:
      return winograd::forward(s, x, weight, bias, y);
    case ConvKernel::gather:
      return gather::forward(s, x, weight, bias, y);
    case ConvKernel::onednn:
      return onednn::forward(s, x, weight, bias, y);
    case ConvKernel::pointwise:
      return pointwise::forward(s, x, weight, bias, y);
  }
}

void conv_input_gradient(ConvKernel kernel, const ConvShape& s, const Tensor& dy, const Tensor& weight,
                         const Tensor& dx, bool add) {
  switch (kernel) {
    case ConvKernel::direct:
      return direct::gradient_of_input(s, dy, weight, dx, add);
    case ConvKernel::winograd:
      return winograd::gradient_of_input(s, dy, weight, dx, add);
    case ConvKernel::gather:
      return gather::gradient_of_input(s, dy, weight, dx, add);
    case ConvKernel::onednn:
      return onednn::gradient_of_input(s, dy, weight, dx, add);
    case ConvKernel::pointwise:
      return pointwise::gradient_of_input(s, dy, weight, dx, add);
  }
}

void conv_weight_gradient(ConvKernel kernel, const ConvShape& s, const Tensor& x, const Tensor& dy,
                          const Tensor& dweight, bool add) {
  switch (kernel) {
    case ConvKernel::direct:
      return direct::gradient_of_weight(s, x, dy, dweight, add);
    case ConvKernel::winograd:
      return winograd::gradient_of_weight(s, x, dy, dweight, add);
    case ConvKernel::gather:
      return gather::gradient_of_weight(s, x, dy, dweight, add);
    case ConvKernel::onednn:
      return onednn::gradient_of_weight(s, x, dy, dweight, add);
    case ConvKernel::pointwise:
      return pointwise::gradient_of_weight(s, x, dy, dweight, add);
  }
}

}  // namespace lacuna
