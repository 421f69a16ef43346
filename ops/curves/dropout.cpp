#include "ops/curves/dropout.h"

#include "core/parallel.h"
#include "ops/arithmetic/arithmetic.h"
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

/// Writes elements [begin, end) of y: `kept(i)`, plus the residual's element if there is one.
template <class T, class Kept>
void write_kept(std::int64_t begin, std::int64_t end, const T* residual, T* y, const Kept& kept) {
  if (residual == nullptr) {
#pragma GCC ivdep
    for (std::int64_t i = begin; i < end; ++i) y[i] = static_cast<T>(kept(i));
    return;
  }
#pragma GCC ivdep
  for (std::int64_t i = begin; i < end; ++i)
    y[i] = static_cast<T>(to_compute(static_cast<T>(kept(i))) + to_compute(residual[i]));
}

template <class T>
const T* data_or_null(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<T>() : nullptr;
}

template <class T>
void drop_elements_on_cpu(const DropRate& rate, const RandomStream& stream, std::int64_t first,
                          std::int64_t sample_size, const Sequences* sequences, const Tensor& x, const Tensor& residual,
                          const Tensor& y) {
  const auto scale = static_cast<Compute<T>>(rate.scale);
  const T *const from = x.data<T>(), *const added = data_or_null<T>(residual);
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
      write_kept(at, at + count, added, to, [&](std::int64_t i) {
        const Compute<T> kept = to_compute(from[i]) * scale;
        return draws[skip + i - at] < rate.dropped_below ? Compute<T>(0) : kept;
      });
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
                         const Tensor& x, const Tensor& residual, const Tensor& y) {
  const auto scale = static_cast<Compute<T>>(rate.scale);
  const T *const from = x.data<T>(), *const added = data_or_null<T>(residual);
  T* const to = y.data<T>();
  const auto drop = [&](std::uint64_t sample, std::int64_t begin, std::int64_t end, std::int64_t at) {
    const bool dropped = stream.draw_of_sample(sample, 0)[0] < rate.dropped_below;
    write_kept(at, at + end - begin, added, to,
               [&](std::int64_t i) { return dropped ? Compute<T>(0) : to_compute(from[i]) * scale; });
  };
  parallel_for(y.count(), 16384, [&](std::int64_t begin, std::int64_t end) {
    for_samples(first, first + begin, first + end, sample_size, drop);
  });
}

const RegisterKernel cpu_drop_elements{
    drop_elements, DeviceKind::cpu,
    [](const DropRate& rate, const RandomStream& stream, std::int64_t first, std::int64_t sample_size,
       const Sequences* sequences, const Tensor& x, const Tensor& residual, const Tensor& y) {
      with_float_type(y.dtype(), [&]<class T>(Type<T>) {
        drop_elements_on_cpu<T>(rate, stream, first, sample_size, sequences, x, residual, y);
      });
    }};
const RegisterKernel cpu_drop_samples{
    drop_samples, DeviceKind::cpu,
    [](const DropRate& rate, const RandomStream& stream, std::int64_t first, std::int64_t sample_size, const Tensor& x,
       const Tensor& residual, const Tensor& y) {
      with_float_type(y.dtype(), [&]<class T>(Type<T>) {
        drop_samples_on_cpu<T>(rate, stream, first, sample_size, x, residual, y);
      });
    }};

/// x, residual (may be undefined) and y hold elements of a tensor of `shape` from number `first` on.
void drop(const Dropout& op, const Shape& shape, std::int64_t first, const Tensor& x, const Tensor& residual,
          const Tensor& y) {
  const Sequences* const sequences = op.sequences.get();
  expect(sequences == nullptr || shape.rows() == sequences->rows(),
         "dropout expects the {} rows of its sequences, got {}", sequences == nullptr ? 0 : sequences->rows(), shape);
  drop_elements(y.device(), rate_of(Dropout::name, op.p), op.stream, first,
                sequences == nullptr ? sample_size(shape) : shape.back(), sequences, x, residual, y);
}
void drop(const DropPath& op, const Shape& shape, std::int64_t first, const Tensor& x, const Tensor& residual,
          const Tensor& y) {
  expect(shape.rank() >= 2, "drop_path expects [batch, ...], got {}", shape);
  drop_samples(y.device(), rate_of(DropPath::name, op.p), op.stream, first, sample_size(shape), x, residual, y);
}

template <class Op>
Tensor forward_of(const Op& op, std::span<const Tensor> inputs) {
  const Tensor &x = inputs[Op::x], residual = inputs.size() > Op::residual ? inputs[Op::residual] : Tensor();
  if (residual.defined())
    expect(residual.shape() == x.shape() && residual.dtype() == x.dtype(),
           "{}: expected a residual {} in {}, got {} in {}", Op::name, x.shape(), name_of(x.dtype()), residual.shape(),
           name_of(residual.dtype()));
  Tensor y = empty_like(x);
  drop(op, y.shape(), 0, x, residual, y);
  return y;
}

template <class Op>
void backward_of(const Op& op, Tensor dy, Grads& grads) {
  if (grads.wanted(Op::residual)) pass_on(dy, grads[Op::residual]);
  if (!grads.wanted(Op::x)) return;
  grads[Op::x] = reuse_or_empty(dy, dy.shape(), dy.dtype());
  drop(op, dy.shape(), 0, dy, {}, grads[Op::x]);
}

template <class Op>
void rematerialize_of(const Op& op, const RematInputs<Op>& from, const Tensor& out) {
  drop(op, from.shape(), from.first_element(), from.template get<input(Op::x)>(),
       from.template get<input(Op::residual)>(), out);
}

}  // namespace

Tensor Dropout::forward(std::span<const Tensor> inputs) const { return forward_of(*this, inputs); }
void Dropout::backward(Tensor dy, const Saved<Dropout>&, Grads& grads) const {
  backward_of(*this, std::move(dy), grads);
}
void Dropout::rematerialize(const RematInputs<Dropout>& from, const Tensor& out) const {
  rematerialize_of(*this, from, out);
}

Tensor DropPath::forward(std::span<const Tensor> inputs) const { return forward_of(*this, inputs); }
void DropPath::backward(Tensor dy, const Saved<DropPath>&, Grads& grads) const {
  backward_of(*this, std::move(dy), grads);
}
void DropPath::rematerialize(const RematInputs<DropPath>& from, const Tensor& out) const {
  rematerialize_of(*this, from, out);
}

}  // namespace lacuna
