#include "ops/curves/dropout.h"
#include "tests/ops/op_sample.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace lacuna {
namespace {

OpSample random(std::string name, std::shared_ptr<const Operation> op, Shape shape, bool with_residual = false) {
  return {.name = std::move(name),
          .op = std::move(op),
          .inputs =
              [=](DType dtype) {
                std::vector inputs{sample_values(shape, dtype, 1)};
                if (with_residual) inputs.push_back(sample_values(shape, dtype, 2));
                return inputs;
              },
          .differentiable = with_residual ? InputSet{0, 1} : InputSet{0}};
}

constexpr RandomStream stream{.seed = 7, .step = 3, .site = 11};

const RegisterSample dropout(random("dropout", bound(Dropout{.p = 0.3, .stream = stream}), {3, 5, 7}));
const RegisterSample many(random("dropout of many elements", bound(Dropout{.p = 0.1, .stream = stream}), {211, 103}));
const RegisterSample nothing(random("dropout with p 0", bound(Dropout{.p = 0, .stream = stream}), {3, 5}));
const RegisterSample drop_path(random("drop_path", bound(DropPath{.p = 0.4, .stream = stream}), {9, 3, 5}));
const RegisterSample onto(random("dropout residual", bound(Dropout{.p = 0.3, .stream = stream}), {3, 5, 7}, true));
const RegisterSample onto_by_four(random("dropout residual by four", bound(Dropout{.p = 0.3, .stream = stream}),
                                         {3, 5, 8}, true));
const RegisterSample path_onto(random("drop_path residual", bound(DropPath{.p = 0.4, .stream = stream}), {9, 3, 5},
                                      true));

Tensor forward(const Operation& op, const Tensor& x) {
  std::vector<Tensor> extra_outputs;
  return op.forward({{x}}, extra_outputs).front();
}

/// `op` on all samples at once, and on each `part` of them with the number of its first sample.
template <class Op>
void check_split(Op op) {
  const Tensor x = sample_values({8, 3, 7}, DType::f32, 1);
  const std::vector<double> whole = forward(Bound<Op>(op), x).to_vector();
  for (const std::int64_t part : {1, 2, 4}) {
    std::vector<double> parts;
    for (std::int64_t first = 0; first < 8; first += part) {
      op.stream.first_sample = static_cast<std::uint32_t>(first);
      for (const double value : forward(Bound<Op>(op), x.leading(first, first + part)).to_vector())
        parts.push_back(value);
    }
    CHECK(parts == whole);
  }
}

}  // namespace

TEST_CASE("dropout: one batch of 8 and four of 2 have the same draws") {
  check_split(Dropout{.p = 0.4, .stream = stream});
  check_split(DropPath{.p = 0.4, .stream = stream});
}

TEST_CASE("dropout: samples of one batch have different draws") {
  const std::vector<double> y =
      forward(Bound<Dropout>({.p = 0.5, .stream = stream}), Tensor::full({2, 64}, 1, DType::f32, Device::cpu))
          .to_vector();
  CHECK(!std::equal(y.begin(), y.begin() + 64, y.begin() + 64));
}

}  // namespace lacuna
