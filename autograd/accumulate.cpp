#include "autograd/accumulate.h"

#include "core/parallel.h"

#include <algorithm>
#include <numeric>

namespace lacuna {

Tensor sum(Tensor a, Tensor b) {
  expect(a.shape() == b.shape() && a.dtype() == b.dtype(), "gradients of one tensor differ: {} {} and {} {}", a.shape(),
         name_of(a.dtype()), b.shape(), name_of(b.dtype()));
  const Tensor out = a.unique() ? a : reuse_or_empty(b, b.shape(), b.dtype());
  launch(a.device(), [&] {
    with_float_type(a.dtype(), [&]<class T>(Type<T>) {
      map(
          a.count(), [](auto x, auto y) { return x + y; }, out.data<T>(), a.data<T>(), b.data<T>());
    });
  });
  return out;
}

Tensor difference(Tensor a, const Tensor& b) {
  const Tensor out = reuse_or_empty(a, a.shape(), a.dtype());
  launch(a.device(), [&] {
    with_float_type(a.dtype(), [&]<class T>(Type<T>) {
      map(
          a.count(), [](auto x, auto y) { return x - y; }, out.data<T>(), a.data<T>(), b.data<T>());
    });
  });
  return out;
}

namespace {

/// Σ (p − q)² from `begin` to `end`; `q` may be null.
template <class T>
double squared_difference(const T* p, const T* q, std::int64_t begin, std::int64_t end) {
  double sum = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    const double d = static_cast<double>(to_compute(p[i])) - (q == nullptr ? 0 : static_cast<double>(to_compute(q[i])));
    sum += d * d;
  }
  return sum;
}

/// The squared difference of elements begin(i) to begin(i + 1), for each i below `parts`; zeros on `meta`.
template <class F>
std::vector<double> squared_differences_of_parts(const Tensor& a, const Tensor& b, std::int64_t parts, const F& begin) {
  std::vector<double> sums(static_cast<std::size_t>(parts));
  launch(a.device(), [&] {
    with_float_type(a.dtype(), [&]<class T>(Type<T>) {
      const T *const p = a.data<T>(), *const q = b.defined() ? b.data<T>() : nullptr;
      parallel_tasks(parts, [&](std::int64_t index, std::int64_t) {
        sums[static_cast<std::size_t>(index)] = squared_difference(p, q, begin(index), begin(index + 1));
      });
    });
  });
  return sums;
}

}  // namespace

double squared_difference(const Tensor& a, const Tensor& b) {
  const std::int64_t parts = threads();
  const std::vector<double> sums =
      squared_differences_of_parts(a, b, parts, [&](std::int64_t index) { return index * a.count() / parts; });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

std::vector<double> squared_differences(const Tensor& a, const Tensor& b, std::int64_t rows) {
  const std::int64_t width = a.count() / rows;
  return squared_differences_of_parts(a, b, rows, [&](std::int64_t index) { return index * width; });
}

Tensor with_random_signs(const Tensor& a, const RandomStream& stream) {
  const Tensor out = Tensor::empty(a.shape(), a.dtype(), a.device());
  launch(a.device(), [&] {
    with_float_type(a.dtype(), [&]<class T>(Type<T>) {
      constexpr std::int64_t at_once = 128;  // signs in one draw
      const std::int64_t blocks = (a.count() + at_once - 1) / at_once;
      const T* const p = a.data<T>();
      T* const q = out.data<T>();
      parallel_tasks(blocks, [&](std::int64_t block, std::int64_t) {
        const std::array<std::uint32_t, 4> bits = stream.draw(static_cast<std::uint64_t>(block));
        const std::int64_t begin = block * at_once, end = std::min(begin + at_once, a.count());
        for (std::int64_t i = begin; i < end; ++i)
          q[i] = (bits[static_cast<std::size_t>(i - begin) / 32] >> (i - begin) % 32 & 1) != 0
                     ? static_cast<T>(-to_compute(p[i]))
                     : p[i];
      });
    });
  });
  return out;
}

}  // namespace lacuna
