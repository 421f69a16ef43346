#include "ops/heads.h"

#include "core/parallel.h"

#include <algorithm>

namespace lacuna {
namespace {

const RegisterOp<SplitHeads> split_heads;
const RegisterOp<MergeHeads> merge_heads;

/// Both ops yield pieces of head_dim elements one after another; this says where in the input each comes from.
struct SplitPieces {
  std::int64_t heads, length, head_dim;  // H, L, d
  std::int64_t stride, first;            // of a packed token, and of its part: elements

  explicit SplitPieces(const SplitHeads& op, const Shape& split)
      : heads(split[1]),
        length(split[2]),
        head_dim(split[3]),
        stride(op.parts * heads * head_dim),
        first(op.part * heads * head_dim) {}

  std::int64_t source(std::int64_t piece) const {  // piece (b, h, l) lies at token (b, l)
    const std::int64_t token = piece % length, head = piece / length % heads, image = piece / length / heads;
    return (image * length + token) * stride + first + head * head_dim;
  }
};

struct MergePieces {
  std::int64_t heads, length, head_dim;  // H, L, d

  std::int64_t source(std::int64_t piece) const {  // piece (b, l, h) lies at row (b, h, l)
    const std::int64_t head = piece % heads, token = piece / heads % length, image = piece / heads / length;
    return ((image * heads + head) * length + token) * head_dim;
  }
};

constexpr std::int64_t serial_below = 256;  // pieces

/// Writes pieces [first, ...) to the whole of `out`.
template <class Pieces>
void gather(const Pieces& pieces, const Tensor& in, const Tensor& out, std::int64_t first) {
  launch(in.device(), [&] {
    with_float_type(in.dtype(), [&]<class T>(Type<T>) {
      const T* const source = in.data<T>();
      T* const target = out.data<T>();
      const std::int64_t width = pieces.head_dim;
      parallel_for(out.count() / width, serial_below, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
          std::copy_n(source + pieces.source(first + i), width, target + i * width);
      });
    });
  });
}

/// Puts each piece back to where it came from: `out` at that place is written or, with `add`, added to.
template <class Pieces>
void scatter(const Pieces& pieces, const Tensor& in, const Tensor& out, bool add) {
  launch(in.device(), [&] {
    with_float_type(in.dtype(), [&]<class T>(Type<T>) {
      const T* const source = in.data<T>();
      T* const target = out.data<T>();
      const std::int64_t width = pieces.head_dim;
      parallel_for(in.count() / width, serial_below, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const T* const piece = source + i * width;
          T* const place = target + pieces.source(i);
          if (!add) {
            std::copy_n(piece, width, place);
            continue;
          }
#pragma omp simd
          for (std::int64_t j = 0; j < width; ++j)
            place[j] = static_cast<T>(to_compute(place[j]) + to_compute(piece[j]));
        }
      });
    });
  });
}

}  // namespace

Tensor SplitHeads::forward(std::span<const Tensor> inputs) const {
  const Tensor& in = inputs[x];
  expect(in.shape().rank() == 3 && in.shape().back() % (parts * heads) == 0 && 0 <= part && part < parts,
         "split_heads: expected x [B, L, {} parts · {} heads · d], got {}", parts, heads, in.shape());
  const Shape shape{in.shape()[0], heads, in.shape()[1], in.shape().back() / (parts * heads)};
  Tensor y = Tensor::empty(shape, in.dtype(), in.device());
  gather(SplitPieces(*this, shape), in, y, 0);
  return y;
}

void SplitHeads::backward(const Tensor& dy, const Saved<SplitHeads>&, Grads& grads) const {
  const Shape& shape = dy.shape();
  const bool add = grads[x].defined();
  if (!add)  // the other parts' share comes from their own ops
    grads[x] = Tensor::zeros({shape[0], shape[2], parts * shape[1] * shape[3]}, dy.dtype(), dy.device());
  scatter(SplitPieces(*this, shape), dy, grads[x], add);
}

void SplitHeads::rematerialize(const RematInputs<SplitHeads>& from, const Tensor& out) const {
  gather(SplitPieces(*this, from.shape()), from.get<input(x)>(), out, from.first_row());
}

Tensor MergeHeads::forward(std::span<const Tensor> inputs) const {
  const Tensor& in = inputs[x];
  const Shape& shape = in.shape();
  expect(shape.rank() == 4 && shape[1] == heads, "merge_heads: expected x [B, {} heads, L, d], got {}", heads, shape);
  Tensor y = Tensor::empty({shape[0], shape[2], heads * shape[3]}, in.dtype(), in.device());
  gather(MergePieces{heads, shape[2], shape[3]}, in, y, 0);
  return y;
}

void MergeHeads::backward(const Tensor& dy, const Saved<MergeHeads>&, Grads& grads) const {
  const Shape& shape = dy.shape();
  const std::int64_t head_dim = shape.back() / heads;
  const bool add = grads[x].defined();
  if (!add) grads[x] = Tensor::empty({shape[0], heads, shape[1], head_dim}, dy.dtype(), dy.device());
  scatter(MergePieces{heads, shape[1], head_dim}, dy, grads[x], add);
}

void MergeHeads::rematerialize(const RematInputs<MergeHeads>& from, const Tensor& out) const {
  const Shape& shape = from.shape();
  gather(MergePieces{heads, shape[1], shape.back() / heads}, from.get<input(x)>(), out, from.first_row() * heads);
}

}  // namespace lacuna
