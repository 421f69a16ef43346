#include "ops/curves/dropout.h"

#include "core/parallel.h"
#include "ops/curves/dropout_kernels.h"

#include <cmath>

namespace lacuna {
namespace {

const RegisterOp<Dropout> dropout;
const RegisterOp<DropPath> drop_path;

DropRate rate_of(std::string_view op, double p) {
  expect(p >= 0 && p < 1, "{} expects a probability in [0, 1), got {}", op, p);
  return {static_cast<std::uint32_t>(std::min(std::ldexp(p, 32), 4294967295.0)), 1 / (1 - p)};
}

/// Elements of one entry of the batch axis.
std::int64_t sample_size(const Shape& shape) { return shape.count() / std::max<std::int64_t>(shape.front(), 1); }

/// Calls `f(sample, begin, end, at)` for the elements [begin, end) of each sample that lie in elements [first, last) of
/// the tensor; `at` is the number of the first of them, counted from `origin`.
template <class F>
void for_samples(std::int64_t origin, std::int64_t first, std::int64_t last, std::int64_t sample_size, const F& f) {
  while (first < last) {
    const std::int64_t sample = first / sample_size, begin = first % sample_size;
    const std::int64_t count = std::min(sample_size - begin, last - first);
    f(static_cast<std::uint64_t>(sample), begin, begin + count, first - origin);
    first += count;
  }
}

/// The same where samples are sequences of rows of `width` elements.
template <class F>
void for_sequences(std::int64_t origin, std::int64_t first, std::int64_t last, std::int64_t width,
                   const Sequences& sequences, const F& f) {
  while (first < last) {
    const std::int64_t sample = sequences.at(first / width), begin = first - sequences.begin(sample) * width;
    const std::int64_t count = std::min(sequences.end(sample) * width - first, last - first);
    f(static_cast<std::uint64_t>(sample), begin, begin + count, first - origin);
    first += count;
  }
}

template <class T>
void drop_elements_on_cpu(const DropRate& rate, const RandomStream& stream, std::int64_t first,
                          std::int64_t sample_size, const Sequences* sequences, const Tensor& x, const Tensor& y) {
  const auto scale = static_cast<Compute<T>>(rate.scale);
  const T* const from = x.data<T>();
  T* const to = y.data<T>();
  constexpr std::int64_t most_blocks = 128;  // of four draws, made at once
  const auto drop = [&](std::uint64_t sample, std::int64_t begin, std::int64_t end, std::int64_t at) {
    std::uint32_t draws[4 * most_blocks];
    while (begin < end) {
      const std::int64_t block = begin / 4, skip = begin % 4;
      const std::int64_t blocks = std::min(most_blocks, (end + 3) / 4 - block);
#pragma GCC ivdep
      for (std::int64_t k = 0; k < blocks; ++k) {
        const std::array<std::uint32_t, 4> four = stream.draw_of_sample(sample, static_cast<std::uint32_t>(block + k));
        for (std::size_t j = 0; j < 4; ++j) draws[4 * k + static_cast<std::int64_t>(j)] = four[j];
      }
      const std::int64_t count = std::min(end - begin, 4 * blocks - skip);
#pragma GCC ivdep
      for (std::int64_t i = 0; i < count; ++i) {
        const Compute<T> kept = to_compute(from[at + i]) * scale;
        to[at + i] = static_cast<T>(draws[skip + i] < rate.dropped_below ? Compute<T>(0) : kept);
      }
      begin += count;
      at += count;
    }
  };
  parallel_for(y.count(), 4096, [&](std::int64_t begin, std::int64_t end) {
    if (sequences != nullptr)
      for_sequences(first, first + begin, first + end, sample_size, *sequences, drop);
    else
      for_samples(first, first + begin, first + end, sample_size, drop);
  });
}

template <class T>
void drop_samples_on_cpu(const DropRate& rate, const RandomStream& stream, std::int64_t first, std::int64_t sample_size,
                         const Tensor& x, const Tensor& y) {
  const auto scale = static_cast<Compute<T>>(rate.scale);
  const T* const from = x.data<T>();
  T* const to = y.data<T>();
  const auto drop = [&](std::uint64_t sample, std::int64_t begin, std::int64_t end, std::int64_t at) {
    const bool dropped = stream.draw_of_sample(sample, 0)[0] < rate.dropped_below;
#pragma GCC ivdep
    for (std::int64_t i = at; i < at + end - begin; ++i)
      to[i] = static_cast<T>(dropped ? Compute<T>(0) : to_compute(from[i]) * scale);
  };
  parallel_for(y.count(), 16384, [&](std::int64_t begin, std::int64_t end) {
    for_samples(first, first + begin, first + end, sample_size, drop);
  });
}

const RegisterKernel cpu_drop_elements{
    drop_elements, DeviceKind::cpu,
    [](const DropRate& rate, const RandomStream& stream, std::int64_t first, std::int64_t sample_size,
       const Sequences* sequences, const Tensor& x, const Tensor& y) {
      with_float_type(y.dtype(), [&]<class T>(Type<T>) {
        drop_elements_on_cpu<T>(rate, stream, first, sample_size, sequences, x, y);
      });
    }};
const RegisterKernel cpu_drop_samples{drop_samples, DeviceKind::cpu,
                                      [](const DropRate& rate, const RandomStream& stream, std::int64_t first,
                                         std::int64_t sample_size, const Tensor& x, const Tensor& y) {
                                        with_float_type(y.dtype(), [&]<class T>(Type<T>) {
                                          drop_samples_on_cpu<T>(rate, stream, first, sample_size, x, y);
                                        });
                                      }};

/// x and y hold elements of a tensor of `shape` from number `first` on.
void drop(const Dropout& op, const Shape& shape, std::int64_t first, const Tensor& x, const Tensor& y) {
  const Sequences* const sequences = op.sequences.get();
  expect(sequences == nullptr || shape.rows() == sequences->rows(),
         "dropout expects the {} rows of its sequences, got {}", sequences == nullptr ? 0 : sequences->rows(), shape);
  drop_elements(y.device(), rate_of(Dropout::name, op.p), op.stream, first,
                sequences == nullptr ? sample_size(shape) : shape.back(), sequences, x, y);
}
void drop(const DropPath& op, const Shape& shape, std::int64_t first, const Tensor& x, const Tensor& y) {
  drop_samples(y.device(), rate_of(DropPath::name, op.p), op.stream, first, sample_size(shape), x, y);
}

}  // namespace

Tensor Dropout::forward(std::span<const Tensor> inputs) const {
  Tensor y = empty_like(inputs[x]);
  drop(*this, y.shape(), 0, inputs[x], y);
  return y;
}
void Dropout::backward(Tensor dy, const Saved<Dropout>&, Grads& grads) const {
  grads[x] = reuse_or_empty(dy, dy.shape(), dy.dtype());
  drop(*this, dy.shape(), 0, dy, grads[x]);
}
void Dropout::rematerialize(const RematInputs<Dropout>& from, const Tensor& out) const {
  drop(*this, from.shape(), from.first_element(), from.get<input(x)>(), out);
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
  drop(*this, from.shape(), from.first_element(), from.get<input(x)>(), out);
}

}  // namespace lacuna
