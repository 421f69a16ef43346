#include "ops/dropout.h"

#include "core/parallel.h"
#include "ops/dropout_kernels.h"

#include <cmath>

namespace lacuna {
namespace {

const RegisterOp<Dropout> dropout;
const RegisterOp<DropPath> drop_path;

DropRate rate_of(std::string_view op, double p) {
  expect(p >= 0 && p < 1, "{} expects a probability in [0, 1), got {}", op, p);
  return {static_cast<std::uint32_t>(std::min(std::ldexp(p, 32), 4294967295.0)), 1 / (1 - p)};
}

template <class T>
void drop_elements_on_cpu(const DropRate& rate, const RandomStream& stream, std::int64_t first, const Tensor& x,
                          const Tensor& y) {
  const auto scale = static_cast<Compute<T>>(rate.scale);
  const T* const from = x.data<T>();
  T* const to = y.data<T>();
  constexpr std::int64_t blocks = 128;  // of four draws, made at once
  parallel_for(y.count(), 4096, [&](std::int64_t begin, std::int64_t end) {
    std::uint32_t draws[4 * blocks];
    while (begin < end) {
      const std::int64_t block = (first + begin) / 4, skip = (first + begin) % 4;
#pragma GCC ivdep
      for (std::int64_t k = 0; k < blocks; ++k) {
        const std::array<std::uint32_t, 4> four = stream.draw(static_cast<std::uint64_t>(block + k));
        for (std::size_t j = 0; j < 4; ++j) draws[4 * k + static_cast<std::int64_t>(j)] = four[j];
      }
      const std::int64_t count = std::min(end - begin, 4 * blocks - skip);
#pragma GCC ivdep
      for (std::int64_t i = 0; i < count; ++i) {
        const Compute<T> kept = to_compute(from[begin + i]) * scale;
        to[begin + i] = static_cast<T>(draws[skip + i] < rate.dropped_below ? Compute<T>(0) : kept);
      }
      begin += count;
    }
  });
}

template <class T>
void drop_samples_on_cpu(const DropRate& rate, const RandomStream& stream, std::int64_t first_row,
                         std::int64_t rows_per_sample, const Tensor& x, const Tensor& y) {
  const auto scale = static_cast<Compute<T>>(rate.scale);
  const T* const from = x.data<T>();
  T* const to = y.data<T>();
  const std::int64_t n = y.shape().back();
  parallel_for(y.rows(), 16384 / n + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const auto sample = static_cast<std::uint64_t>((first_row + row) / rows_per_sample);
      const bool dropped = stream.bits(sample) < rate.dropped_below;
#pragma GCC ivdep
      for (std::int64_t i = row * n; i < (row + 1) * n; ++i)
        to[i] = static_cast<T>(dropped ? Compute<T>(0) : to_compute(from[i]) * scale);
    }
  });
}

const RegisterKernel cpu_drop_elements{
    drop_elements, DeviceKind::cpu,
    [](const DropRate& rate, const RandomStream& stream, std::int64_t first, const Tensor& x, const Tensor& y) {
      with_float_type(y.dtype(), [&]<class T>(Type<T>) { drop_elements_on_cpu<T>(rate, stream, first, x, y); });
    }};
const RegisterKernel cpu_drop_samples{drop_samples, DeviceKind::cpu,
                                      [](const DropRate& rate, const RandomStream& stream, std::int64_t first_row,
                                         std::int64_t rows_per_sample, const Tensor& x, const Tensor& y) {
                                        with_float_type(y.dtype(), [&]<class T>(Type<T>) {
                                          drop_samples_on_cpu<T>(rate, stream, first_row, rows_per_sample, x, y);
                                        });
                                      }};

void drop(const Dropout& op, std::int64_t first, const Tensor& x, const Tensor& y) {
  drop_elements(y.device(), rate_of(Dropout::name, op.p), op.stream, first, x, y);
}

/// `shape`: the whole tensor's, of which x and y have rows from `first_row` on.
void drop(const DropPath& op, const Shape& shape, std::int64_t first_row, const Tensor& x, const Tensor& y) {
  drop_samples(y.device(), rate_of(DropPath::name, op.p), op.stream, first_row,
               shape.rows() / std::max<std::int64_t>(shape.front(), 1), x, y);
}

}  // namespace

Tensor Dropout::forward(std::span<const Tensor> inputs) const {
  Tensor y = empty_like(inputs[x]);
  drop(*this, 0, inputs[x], y);
  return y;
}
void Dropout::backward(Tensor dy, const Saved<Dropout>&, Grads& grads) const {
  grads[x] = reuse_or_empty(dy, dy.shape(), dy.dtype());
  drop(*this, 0, dy, grads[x]);
}
void Dropout::rematerialize(const RematInputs<Dropout>& from, const Tensor& out) const {
  drop(*this, from.first_row() * out.shape().back(), from.get<input(x)>(), out);
}

Tensor DropPath::forward(std::span<const Tensor> inputs) const {
  expect(inputs[x].shape().rank() >= 2, "drop_path expects [batch, ...], got {}", inputs[x].shape());
  Tensor y = empty_like(inputs[x]);
  drop(*this, y.shape(), 0, inputs[x], y);
  return y;
}
void DropPath::backward(Tensor dy, const Saved<DropPath>&, Grads& grads) const {
  grads[x] = reuse_or_empty(dy, dy.shape(), dy.dtype());
  drop(*this, dy.shape(), 0, dy, grads[x]);
}
void DropPath::rematerialize(const RematInputs<DropPath>& from, const Tensor& out) const {
  drop(*this, from.shape(), from.first_row(), from.get<input(x)>(), out);
}

}  // namespace lacuna
