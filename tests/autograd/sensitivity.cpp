// What is noted of the gradient's sensitivity to codes, and whether it is true.
#include "autograd/sensitivity.h"

#include "autograd/bit_plan.h"

#include <doctest/doctest.h>

namespace lacuna {

TEST_CASE("sensitivity: a parameter's change counts as it is, per variance of the code") {
  SensitivityRecord record;
  record.add_gradients(5);
  record.add("a", 2, 0.3, 0);
  record.add("b", 1, 0.7, 0);
  const std::map<std::string, double> found = record.sensitivities();
  CHECK(found.size() == 2);
  CHECK(found.at("a") == doctest::Approx(0.3 / code_variance(2)));
  CHECK(found.at("b") == doctest::Approx(0.7));
}

TEST_CASE("sensitivity: what flows on counts by the gradients behind it, not by the node's own or earlier ones") {
  SensitivityRecord record;
  record.add_gradients(1000);  // backward reaches it first: nothing of it is behind the others
  record.add("last layer", 1, 0, 0.5);
  record.add_gradients(8);
  record.add("middle", 1, 1, 0.25);
  record.add_gradients(0);  // an op without parameters
  record.add("curve", 1, 0, 0.125);
  record.add_gradients(2);
  record.add("first layer", 1, 3, 0.75);
  const std::map<std::string, double> found = record.sensitivities();
  CHECK(found.at("last layer") == doctest::Approx(0.5 * (8 + 2)));
  CHECK(found.at("middle") == doctest::Approx(1 + 0.25 * 2));
  CHECK(found.at("curve") == doctest::Approx(0.125 * 2));
  CHECK(found.at("first layer") == doctest::Approx(3));
}

TEST_CASE("sensitivity: a tensor that several ops read gathers all of its changes") {
  SensitivityRecord record;
  record.add_gradients(0);
  record.add("x", 2, 0.25, 0);
  record.add_gradients(4);
  record.add("x", 1, 0.5, 0);
  CHECK(record.sensitivities().at("x") == doctest::Approx(0.25 * 9 + 0.5));
  CHECK(SensitivityRecord().sensitivities().empty());
}

}  // namespace lacuna
