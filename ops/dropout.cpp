#include "ops/dropout.h"

#include "core/parallel.h"

#include <cmath>

namespace lacuna {
namespace {

const RegisterOp<Dropout> dropout;
const RegisterOp<DropPath> drop_path;

/// Draws below this are omissions: p in units of 2^-32.
std::uint32_t threshold(std::string_view op, double p) {
  expect(p >= 0 && p < 1, "{} expects a probability in [0, 1), got {}", op, p);
  return static_cast<std::uint32_t>(std::min(std::ldexp(p, 32), 4294967295.0));
}

/// out = in, with omissions, for elements of a tensor the first of which has number `first`.
void drop_elements(const Dropout& op, std::int64_t first, const Tensor& in, const Tensor& out) {
  const std::uint32_t omitted_below = threshold(Dropout::name, op.p);
  launch(out.device(), [&] {
    with_float_type(out.dtype(), [&]<class T>(Type<T>) {
      const auto scale = static_cast<Compute<T>>(1 / (1 - op.p));
      const T* const from = in.data<T>();
      T* const to = out.data<T>();
      constexpr std::int64_t blocks = 128;  // of four draws, made at once
      parallel_for(out.count(), 4096, [&](std::int64_t begin, std::int64_t end) {
        std::uint32_t draws[4 * blocks];
        while (begin < end) {
          const std::int64_t block = (first + begin) / 4, skip = (first + begin) % 4;
#pragma GCC ivdep
          for (std::int64_t k = 0; k < blocks; ++k) {
            const std::array<std::uint32_t, 4> four = op.stream.draw(static_cast<std::uint64_t>(block + k));
            for (std::size_t j = 0; j < 4; ++j) draws[4 * k + static_cast<std::int64_t>(j)] = four[j];
          }
          const std::int64_t count = std::min(end - begin, 4 * blocks - skip);
#pragma GCC ivdep
          for (std::int64_t i = 0; i < count; ++i) {
            const Compute<T> kept = to_compute(from[begin + i]) * scale;
            to[begin + i] = static_cast<T>(draws[skip + i] < omitted_below ? Compute<T>(0) : kept);
          }
          begin += count;
        }
      });
    });
  });
}

/// out = in, with omitted samples, for rows of a tensor of `shape` the first of which has number `first_row`.
void drop_samples(const DropPath& op, const Shape& shape, std::int64_t first_row, const Tensor& in, const Tensor& out) {
  const std::uint32_t omitted_below = threshold(DropPath::name, op.p);
  launch(out.device(), [&] {
    with_float_type(out.dtype(), [&]<class T>(Type<T>) {
      const auto scale = static_cast<Compute<T>>(1 / (1 - op.p));
      const T* const from = in.data<T>();
      T* const to = out.data<T>();
      const std::int64_t n = out.shape().back(), rows_of_sample = shape.rows() / shape.front();
      parallel_for(out.rows(), 16384 / n + 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          const auto sample = static_cast<std::uint64_t>((first_row + row) / rows_of_sample);
          const bool omitted = op.stream.bits(sample) < omitted_below;
#pragma GCC ivdep
          for (std::int64_t i = row * n; i < (row + 1) * n; ++i)
            to[i] = static_cast<T>(omitted ? Compute<T>(0) : to_compute(from[i]) * scale);
        }
      });
    });
  });
}

}  // namespace

Tensor Dropout::forward(std::span<const Tensor> inputs) const {
  Tensor y = empty_like(inputs[x]);
  drop_elements(*this, 0, inputs[x], y);
  return y;
}
void Dropout::backward(Tensor dy, const Saved<Dropout>&, Grads& grads) const {
  grads[x] = reuse_or_empty(dy, dy.shape(), dy.dtype());
  drop_elements(*this, 0, dy, grads[x]);
}
void Dropout::rematerialize(const RematInputs<Dropout>& from, const Tensor& out) const {
  drop_elements(*this, from.first_row() * out.shape().back(), from.get<input(x)>(), out);
}

Tensor DropPath::forward(std::span<const Tensor> inputs) const {
  expect(inputs[x].shape().rank() >= 2, "drop_path expects [batch, ...], got {}", inputs[x].shape());
  Tensor y = empty_like(inputs[x]);
  drop_samples(*this, y.shape(), 0, inputs[x], y);
  return y;
}
void DropPath::backward(Tensor dy, const Saved<DropPath>&, Grads& grads) const {
  grads[x] = reuse_or_empty(dy, dy.shape(), dy.dtype());
  drop_samples(*this, dy.shape(), 0, dy, grads[x]);
}
void DropPath::rematerialize(const RematInputs<DropPath>& from, const Tensor& out) const {
  drop_samples(*this, from.shape(), from.first_row(), from.get<input(x)>(), out);
}

}  // namespace lacuna
