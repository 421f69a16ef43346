#include "ops/attention/heads.h"

#include "core/parallel.h"
#include "ops/attention/heads_kernels.h"

#include <algorithm>

namespace lacuna {
namespace {

const RegisterOp<SplitHeads> split_heads;
const RegisterOp<MergeHeads> merge_heads;

/// `split`: [B, H, L, d].
HeadPieces split_pieces(const SplitHeads& op, const Shape& split) {
  const std::int64_t heads = split[1], length = split[2], head_dim = split[3], token = op.parts * heads * head_dim;
  return {.outer = heads,
          .inner = length,
          .head_dim = head_dim,
          .first = op.part * heads * head_dim,
          .image_stride = length * token,
          .outer_stride = head_dim,
          .inner_stride = token};
}

HeadPieces merge_pieces(std::int64_t heads, std::int64_t length, std::int64_t head_dim) {
  return {.outer = length,
          .inner = heads,
          .head_dim = head_dim,
          .first = 0,
          .image_stride = heads * length * head_dim,
          .outer_stride = head_dim,
          .inner_stride = length * head_dim};
}

/// The offset of piece `i` in the op's input.
std::int64_t source(const HeadPieces& pieces, std::int64_t i) {
  const std::int64_t inner = i % pieces.inner, outer = i / pieces.inner % pieces.outer,
                     image = i / pieces.inner / pieces.outer;
  return pieces.first + image * pieces.image_stride + outer * pieces.outer_stride + inner * pieces.inner_stride;
}

constexpr std::int64_t serial_below = 256;  // pieces

template <class T>
void gather_on_cpu(const HeadPieces& pieces, const Tensor& x, std::int64_t first_piece, const Tensor& y) {
  const T* const in = x.data<T>();
  T* const out = y.data<T>();
  const std::int64_t width = pieces.head_dim;
  parallel_for(y.count() / width, serial_below, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      std::copy_n(in + source(pieces, first_piece + i), width, out + i * width);
  });
}

template <class T>
void scatter_on_cpu(const HeadPieces& pieces, const Tensor& dy, bool add, const Tensor& dx) {
  const T* const in = dy.data<T>();
  T* const out = dx.data<T>();
  const std::int64_t width = pieces.head_dim;
  parallel_for(dy.count() / width, serial_below, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const T* const piece = in + i * width;
      T* const place = out + source(pieces, i);
      if (!add) {
        std::copy_n(piece, width, place);
        continue;
      }
#pragma GCC ivdep
      for (std::int64_t j = 0; j < width; ++j) place[j] = static_cast<T>(to_compute(place[j]) + to_compute(piece[j]));
    }
  });
}

const RegisterKernel cpu_gather{
    gather_heads, DeviceKind::cpu,
    [](const HeadPieces& pieces, const Tensor& x, std::int64_t first_piece, const Tensor& y) {
      with_float_type(x.dtype(), [&]<class T>(Type<T>) { gather_on_cpu<T>(pieces, x, first_piece, y); });
    }};
const RegisterKernel cpu_scatter{
    scatter_heads, DeviceKind::cpu, [](const HeadPieces& pieces, const Tensor& dy, bool add, const Tensor& dx) {
      with_float_type(dy.dtype(), [&]<class T>(Type<T>) { scatter_on_cpu<T>(pieces, dy, add, dx); });
    }};

}  // namespace

Tensor SplitHeads::forward(std::span<const Tensor> inputs) const {
  const Tensor& in = inputs[x];
  expect(in.shape().rank() == 3 && in.shape().back() % (parts * heads) == 0 && 0 <= part && part < parts,
         "split_heads: expected x [B, L, {} parts · {} heads · d], got {}", parts, heads, in.shape());
  const Shape shape{in.shape()[0], heads, in.shape()[1], in.shape().back() / (parts * heads)};
  Tensor y = Tensor::empty(shape, in.dtype(), in.device());
  gather_heads(y.device(), split_pieces(*this, shape), in, 0, y);
  return y;
}

void SplitHeads::backward(const Tensor& dy, const Saved<SplitHeads>&, Grads& grads) const {
  const Shape& shape = dy.shape();
  const bool add = grads[x].defined();
  if (!add)  // the other parts' gradients come from their own ops
    grads[x] = Tensor::zeros({shape[0], shape[2], parts * shape[1] * shape[3]}, dy.dtype(), dy.device());
  scatter_heads(dy.device(), split_pieces(*this, shape), dy, add, grads[x]);
}

void SplitHeads::rematerialize(const RematInputs<SplitHeads>& from, const Tensor& out) const {
  gather_heads(out.device(), split_pieces(*this, from.shape()), from.get<input(x)>(), from.first_row(), out);
}

Tensor MergeHeads::forward(std::span<const Tensor> inputs) const {
  const Tensor& in = inputs[x];
  const Shape& shape = in.shape();
  expect(shape.rank() == 4 && shape[1] == heads, "merge_heads: expected x [B, {} heads, L, d], got {}", heads, shape);
  Tensor y = Tensor::empty({shape[0], shape[2], heads * shape[3]}, in.dtype(), in.device());
  gather_heads(y.device(), merge_pieces(heads, shape[2], shape[3]), in, 0, y);
  return y;
}

void MergeHeads::backward(const Tensor& dy, const Saved<MergeHeads>&, Grads& grads) const {
  const Shape& shape = dy.shape();
  const std::int64_t head_dim = shape.back() / heads;
  const bool add = grads[x].defined();
  if (!add) grads[x] = Tensor::empty({shape[0], heads, shape[1], head_dim}, dy.dtype(), dy.device());
  scatter_heads(dy.device(), merge_pieces(heads, shape[1], head_dim), dy, add, grads[x]);
}

void MergeHeads::rematerialize(const RematInputs<MergeHeads>& from, const Tensor& out) const {
  const Shape& shape = from.shape();
  gather_heads(out.device(), merge_pieces(heads, shape[1], shape.back() / heads), from.get<input(x)>(),
               from.first_row() * heads, out);
}

}  // namespace lacuna
