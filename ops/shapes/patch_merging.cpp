#include "ops/shapes/patch_merging.h"

#include "core/parallel.h"
#include "ops/shapes/patch_merging_kernels.h"

#include <cstring>

namespace lacuna {
namespace {

const RegisterOp<PatchMerging> patch_merging;

/// Calls `f(piece of y, place of x)` in bytes for each piece of C channels; a negative place lies beyond x.
template <class F>
void for_each_piece(const Shape& x, std::int64_t bytes, const F& f) {
  const std::int64_t height = x[1], width = x[2], rows = (height + 1) / 2, columns = (width + 1) / 2;
  parallel_tasks(x[0] * rows, [&](std::int64_t task, std::int64_t) {
    const std::int64_t image = task / rows, row = task % rows;
    for (std::int64_t column = 0; column < columns; ++column)
      for (std::int64_t i = 0; i < 4; ++i) {
        const std::int64_t y = 2 * row + i % 2, z = 2 * column + i / 2;
        const bool inside = y < height && z < width;
        f(((task * columns + column) * 4 + i) * bytes, inside ? ((image * height + y) * width + z) * bytes : -1);
      }
  });
}

std::int64_t piece_bytes(const Tensor& x) { return x.shape()[3] * size_of(x.dtype()); }

const RegisterKernel cpu_merge{merge_patches, DeviceKind::cpu, [](const Tensor& x, const Tensor& y) {
                                 const auto bytes = static_cast<std::size_t>(piece_bytes(x));
                                 for_each_piece(x.shape(), piece_bytes(x), [&](std::int64_t to, std::int64_t from) {
                                   if (from < 0)
                                     std::memset(y.raw() + to, 0, bytes);
                                   else
                                     std::memcpy(y.raw() + to, x.raw() + from, bytes);
                                 });
                               }};
const RegisterKernel cpu_split{split_patches, DeviceKind::cpu, [](const Tensor& y, const Tensor& x) {
                                 const auto bytes = static_cast<std::size_t>(piece_bytes(x));
                                 for_each_piece(x.shape(), piece_bytes(x), [&](std::int64_t from, std::int64_t to) {
                                   if (to >= 0) std::memcpy(x.raw() + to, y.raw() + from, bytes);
                                 });
                               }};

}  // namespace

Tensor PatchMerging::forward(std::span<const Tensor> inputs) const {
  const Tensor& in = inputs[x];
  const Shape& shape = in.shape();
  expect(shape.rank() == 4 && shape[1] == height && shape[2] == width,
         "patch_merging: expected images [B, {}, {}, C], got {}", height, width, shape);
  Tensor y = Tensor::empty({shape[0], (height + 1) / 2, (width + 1) / 2, 4 * shape[3]}, in.dtype(), in.device());
  merge_patches(y.device(), in, y);
  return y;
}

void PatchMerging::backward(const Tensor& dy, const Saved<PatchMerging>&, Grads& grads) const {
  const Shape& shape = dy.shape();
  grads[x] = Tensor::empty({shape[0], height, width, shape[3] / 4}, dy.dtype(), dy.device());
  split_patches(dy.device(), dy, grads[x]);
}

}  // namespace lacuna
