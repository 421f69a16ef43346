#include "apps/train/nonfinite.h"
#include "autograd/tape.h"

#include "core/finite.h"

#include "ops/arithmetic/arithmetic.h"

#include <doctest/doctest.h>

#include <limits>

namespace lacuna::apps {

TEST_CASE("nonfinite: the first bad value is named, with the largest before it") {
  const std::unique_ptr<MemoryPolicy> how = make_policy("exact");
  Tape tape(*how);
  NonFiniteSearch search;
  tape.set_observer(&search);
  {
    const Recording recording(tape);
    const AllocationScope scope({Purpose::transient, {}, Label("blocks.3.mlp")});
    Variable x(Tensor::full({4}, 1e10, DType::f32, Device::cpu), true);
    for (int i = 0; i < 3; ++i) x = apply(Mul{}, x, x);
  }
  CHECK(search.describe() ==
        "The first value that is not finite came out of mul in blocks.3.mlp (forward). The largest values until then:\n"
        "         1e+20  mul in blocks.3.mlp (forward)");
}

TEST_CASE("nonfinite: NaN and infinity are found in every type that ops compute on") {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    const Tensor tensor = Tensor::zeros({5}, dtype, Device::cpu);
    CHECK(is_finite(tensor));
    for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      tensor.copy_from(Tensor::from(std::vector<double>{1, 2, 3, 4, bad}, {5}));
      CHECK(!is_finite(tensor));
    }
  }
}

}  // namespace lacuna::apps
