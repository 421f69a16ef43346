#include "autograd/accumulate.h"

#include "core/parallel.h"

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

}  // namespace lacuna
