#include "core/backend.h"
#include "core/tensor.h"
#include "ops/cuda/pieces.h"
#include "ops/shapes/slicing_kernels.h"

namespace lacuna {
namespace {

cuda::Pieces pieces_of(const Tensor& whole, const Band& band, const Tensor& packed) {
  return {.scattered = whole.raw(),
          .packed = packed.raw(),
          .count = band.length == 0 ? 0 : band.outer,
          .length = band.length,
          .first = band.first,
          .image_stride = band.stride};
}

const RegisterKernel cuda_fill_band{
    fill_band, DeviceKind::cuda, [](const Tensor& whole, const Band& band, const Tensor& packed) {
      cuda::scatter_pieces(stream_of(whole.device()), size_of(whole.dtype()), pieces_of(whole, band, packed));
    }};
const RegisterKernel cuda_take_band{
    take_band, DeviceKind::cuda, [](const Tensor& whole, const Band& band, const Tensor& packed) {
      cuda::gather_pieces(stream_of(whole.device()), size_of(whole.dtype()), pieces_of(whole, band, packed));
    }};
const RegisterKernel cuda_add_to_band{
    add_to_band, DeviceKind::cuda, [](const Tensor& whole, const Band& band, const Tensor& packed) {
      cuda::add_pieces(stream_of(whole.device()), whole.dtype(), pieces_of(whole, band, packed));
    }};
// Each entry of y is a piece that begins where x does.
const RegisterKernel cuda_repeat{repeat_entry, DeviceKind::cuda, [](const Tensor& x, const Tensor& y) {
                                   const Tensor entry = x.to(y.dtype());
                                   cuda::gather_pieces(stream_of(y.device()), size_of(y.dtype()),
                                                       {.scattered = entry.raw(),
                                                        .packed = y.raw(),
                                                        .count = entry.count() == 0 ? 0 : y.shape().front(),
                                                        .length = entry.count(),
                                                        .first = 0,
                                                        .image_stride = 0});
                                 }};

}  // namespace
}  // namespace lacuna
