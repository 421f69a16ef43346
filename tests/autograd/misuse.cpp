// Undefined variables, and tensors that change between forward and backward, are errors.
#include "tests/autograd/graphs.h"

#include "ops/activation.h"
#include "ops/arithmetic.h"

#include <functional>
#include <utility>

namespace lacuna {

TEST_CASE("an undefined variable is an error, not a crash") {
  Variable variable(test_values({2, 3}, 1));
  const Variable kept = std::move(variable);
  Variable never;
  for (Variable* undefined : {&variable, &never}) {
    CHECK_FALSE(undefined->defined());
    CHECK_FALSE(undefined->requires_grad());
    CHECK_THROWS_AS(static_cast<void>(undefined->tensor()), Error);
    CHECK_THROWS_AS(static_cast<void>(undefined->shape()), Error);
    CHECK_THROWS_AS(static_cast<void>(undefined->dtype()), Error);
    CHECK_THROWS_AS(static_cast<void>(undefined->device()), Error);
    CHECK_THROWS_AS(static_cast<void>(undefined->path()), Error);
    CHECK_THROWS_AS(static_cast<void>(undefined->grad()), Error);
    CHECK_THROWS_AS(undefined->set_grad({}), Error);
    CHECK_THROWS_AS(undefined->set_requires_grad(true), Error);
    CHECK_THROWS_AS(undefined->set_gradient_type(DType::bf16), Error);
    CHECK_THROWS_AS(static_cast<void>(undefined->reshape({6})), Error);
    CHECK_THROWS_AS(static_cast<void>(undefined->detach()), Error);
  }
}

TEST_CASE("a saved tensor that was changed in place makes backward an error") {
  const std::vector<std::function<void(const Tensor&)>> changes{
      [](const Tensor& tensor) { tensor.fill(2); },
      [](const Tensor& tensor) { tensor.leading(0, 1).fill(2); },
      [](const Tensor& tensor) { tensor.copy_from(test_values(tensor.shape(), 9)); },
      [](const Tensor& tensor) { tensor.reshape({tensor.count()}).copy_from(test_values({tensor.count()}, 9)); },
  };
  for (const auto& change : changes) {
    const Variable a = test_leaf({4, 3}, 1), b = test_leaf({4, 3}, 2);
    Tape tape(policy("exact"));
    const Variable loss = [&] {
      const Recording recording(tape);
      return total(apply(Mul{}, a, b));
    }();
    change(b.tensor());
    CHECK_THROWS_AS(tape.backward(loss), Error);
  }
}

}  // namespace lacuna
