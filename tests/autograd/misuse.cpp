// Undefined variables, and tensors that change between forward and backward, are errors.
#include "autograd/tape.h"
#include "tests/autograd/graphs.h"

#include "ops/arithmetic/arithmetic.h"
#include "ops/curves/activation.h"

#include "core/parallel.h"

#include <cstring>
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
      [](const Tensor& tensor) { tensor.data<double>()[0] = 2; },
      [](const Tensor& tensor) { *tensor.reshape({tensor.count()}).leading(3, 4).data<double>() = 2; },
      [](const Tensor& tensor) { std::memset(tensor.raw(), 0, static_cast<std::size_t>(tensor.bytes())); },
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

namespace {

/// y = 2 x, in a kernel that asks for writable pointers only.
struct Double {
  static constexpr std::string_view name = "double";
  static constexpr std::array<Save, 0> saves{};
  Tensor forward(std::span<const Tensor> inputs) const {
    Tensor y = empty_like(inputs[0]);
    const Tensor& x = inputs[0];
    map(
        y.count(), [](double value) { return value; }, y.data<double>(), x.data<double>());
    parallel_tasks(y.count(), [&](std::int64_t i, std::int64_t) { y.data<double>()[i] += x.data<double>()[i]; });
    return y;
  }
  void backward(const Tensor& dy, const Saved<Double>&, Grads& grads) const { grads[0] = forward(std::span(&dy, 1)); }
};

}  // namespace

TEST_CASE("reading a saved tensor between forward and backward changes nothing") {
  const Variable a = test_leaf({4, 3}, 1), b = test_leaf({4, 3}, 2);
  Tape tape(policy("exact"));
  const Variable loss = [&] {
    const Recording recording(tape);
    const Variable product = apply(Mul{}, a, b);
    return total(apply(Add{}, product, apply(Double{}, b)));
  }();
  double sum = 0;
  for (std::int64_t i = 0; i < b.tensor().count(); ++i) sum += b.tensor().data<const double>()[i];
  for (const double value : b.tensor().to_vector()) sum -= value;
  CHECK(sum == 0);
  CHECK(b.tensor().data<const std::byte>() != b.tensor().clone().raw());
  CHECK_NOTHROW(tape.backward(loss));
  CHECK(a.grad().to_vector() == b.tensor().to_vector());
}

}  // namespace lacuna
