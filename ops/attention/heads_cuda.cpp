#include "core/backend.h"
#include "core/tensor.h"
#include "ops/attention/heads_kernels.h"
#include "ops/cuda/pieces.h"

namespace lacuna {
namespace {

cuda::Pieces pieces_of(const HeadPieces& pieces, const Tensor& scattered, const Tensor& packed) {
  return {.scattered = scattered.raw(),
          .packed = packed.raw(),
          .count = packed.count() / pieces.head_dim,
          .length = pieces.head_dim,
          .first = pieces.first,
          .image_stride = pieces.image_stride,
          .outer_stride = pieces.outer_stride,
          .inner_stride = pieces.inner_stride,
          .outer = pieces.outer,
          .inner = pieces.inner};
}

const RegisterKernel cuda_gather{
    gather_heads, DeviceKind::cuda,
    [](const HeadPieces& pieces, const Tensor& x, std::int64_t first_piece, const Tensor& y) {
      cuda::Pieces what = pieces_of(pieces, x, y);
      what.first_piece = first_piece;
      cuda::gather_pieces(stream_of(y.device()), size_of(y.dtype()), what);
    }};
const RegisterKernel cuda_scatter{scatter_heads, DeviceKind::cuda,
                                  [](const HeadPieces& pieces, const Tensor& dy, bool add, const Tensor& dx) {
                                    const cuda::Pieces what = pieces_of(pieces, dx, dy);
                                    if (add)
                                      cuda::add_pieces(stream_of(dx.device()), dx.dtype(), what);
                                    else
                                      cuda::scatter_pieces(stream_of(dx.device()), size_of(dx.dtype()), what);
                                  }};

}  // namespace
}  // namespace lacuna
