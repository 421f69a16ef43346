#include "autograd/accumulate.h"

#include "core/parallel.h"

#include <algorithm>

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

double squared_difference(const Tensor& a, const Tensor& b) {
  double sum = 0;
  launch(a.device(), [&] {
    with_float_type(a.dtype(), [&]<class T>(Type<T>) {
      const int parts = threads();
      std::vector<double> partial(static_cast<std::size_t>(parts));
      parallel_tasks(parts, [&](std::int64_t index, std::int64_t) {
        const auto range = part(a.count(), index, parts);
        const T *const p = a.data<T>(), *const q = b.defined() ? b.data<T>() : nullptr;
        double own = 0;
        for (std::int64_t i = range.begin; i < range.end; ++i) {
          const double d =
              static_cast<double>(to_compute(p[i])) - (q == nullptr ? 0 : static_cast<double>(to_compute(q[i])));
          own += d * d;
        }
        partial[static_cast<std::size_t>(index)] = own;
      });
      for (const double own : partial) sum += own;
    });
  });
  return sum;
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
