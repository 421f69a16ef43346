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

}  // namespace lacuna
