// The recorded sensitivity of the gradient to quantization, against the true one.
#include "autograd/sensitivity.h"

#include "autograd/plan/bit_allocation.h"
#include "core/tensor.h"

#include <doctest/doctest.h>

namespace lacuna {

TEST_CASE("sensitivity: a parameter's change counts as it is, per variance of the code") {
  SensitivityRecord record;
  record.add_node(0, 3, 5, {});
  record.add_change("a", 2, 0.3, {});
  record.add_change("b", 1, 0.7, {});
  const std::map<std::string, double> found = record.sensitivities();
  CHECK(found.size() == 2);
  CHECK(found.at("a") == doctest::Approx(0.3 / code_variance(2)));
  CHECK(found.at("b") == doctest::Approx(0.7 / code_variance(1)));
}

TEST_CASE("sensitivity: errors count as they are, or row by row against the gradient") {
  const Tensor gradient = Tensor::from(std::vector<float>{3, 4, 0.3F, 0.4F, 0, 0}, {3, 2});
  const Tensor changed = Tensor::from(std::vector<float>{3, 5, 0.3F, 0.5F, 0, 1}, {3, 2});
  CHECK(counted_error(changed, gradient, gradient, ErrorMeasure::absolute) == doctest::Approx(1 + 0.01 + 1));
  // A twenty-fifth of each row's square, for two elements; and no more than twice a row of nothing.
  CHECK(counted_error(changed, gradient, gradient, ErrorMeasure::relative) ==
        doctest::Approx(2 * (1.0 / 25 + 1.0 / 25 + 4)));
  CHECK(counted_error(gradient, {}, gradient, ErrorMeasure::relative) == doctest::Approx(4));
  CHECK(counted_error(gradient, gradient, gradient, ErrorMeasure::relative) == 0);
  // A vector is one row.
  const Tensor bias = Tensor::from(std::vector<float>{3, 4}, {2}), other = Tensor::from(std::vector<float>{3, 5}, {2});
  CHECK(counted_error(other, bias, bias, ErrorMeasure::relative) == doctest::Approx(2.0 / 25));
  CHECK(rows_alike({64, 3, 3, 16}) == 64);
}

TEST_CASE("sensitivity: a change that flows on counts by all parameters behind it") {
  SensitivityRecord record;
  record.add_node(3, 1, 1000, {{.to = 2, .square = 40}});
  record.add_change("last layer", 1, 0, {{.to = 2, .square = 20}});  // half of what flows
  record.add_node(2, 40, 8, {{.to = 1, .square = 10}});
  record.add_change("middle", 1, 1, {{.to = 1, .square = 2.5}});  // a quarter
  record.add_node(1, 10, 0, {{.to = 0, .square = 16}});           // an op without parameters
  record.add_change("curve", 1, 0, {{.to = 0, .square = 2}});
  record.add_node(0, 16, 2, {});
  record.add_change("first layer", 1, 3, {});
  const std::map<std::string, double> found = record.sensitivities();
  CHECK(found.at("last layer") == doctest::Approx(0.5 * (8 + 2) / code_variance(1)));
  CHECK(found.at("middle") == doctest::Approx((1 + 0.25 * 2) / code_variance(1)));
  CHECK(found.at("curve") == doctest::Approx(0.125 * 2 / code_variance(1)));
  CHECK(found.at("first layer") == doctest::Approx(3 / code_variance(1)));
}

TEST_CASE("sensitivity: a change that flows into a sum is weighed against the whole sum") {
  SensitivityRecord record;
  record.add_node(2, 100, 0, {{.to = 1, .square = 100}, {.to = 0, .square = 100}});  // x + branch(x)
  record.add_node(1, 100, 6, {{.to = 0, .square = 4}});
  record.add_change("branch", 1, 0, {{.to = 0, .square = 4}});  // as wrong as can be
  record.add_node(0, 104, 52, {});
  const std::map<std::string, double> found = record.sensitivities();
  CHECK(found.at("branch") == doctest::Approx(4 * 52.0 / 104 / code_variance(1)));
}

TEST_CASE("sensitivity: the changes of a tensor with several readers add up") {
  SensitivityRecord record;
  record.add_node(1, 1, 0, {{.to = 0, .square = 1}});
  record.add_change("x", 2, 0.25, {});
  record.add_node(0, 1, 4, {});
  record.add_change("x", 1, 0.5, {});
  CHECK(record.sensitivities().at("x") == doctest::Approx(0.25 / code_variance(2) + 0.5 / code_variance(1)));
  CHECK(SensitivityRecord().sensitivities().empty());
}

}  // namespace lacuna
