// A step of small models on cuda, on the stand-in, against the CPU's.
#include "core/stand_in/fibers.h"
#include "tests/models/tiny_models.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

namespace lacuna {
namespace {

using namespace test;

double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

/// Runs `check(description)` for every small model.
template <class Check>
void for_each_model(const Check& check) {
  for (const Description& description : descriptions()) {
    CAPTURE(description.name);
    check(description);
  }
}

Step on_cuda(const Description& description, std::string_view policy) {
  return step(description, policy, {}, {.device = Device::cuda});
}

}  // namespace

TEST_CASE("cuda: a step of each small model equals the CPU's up to rounding") {
  for_each_model([](const Description& description) {
    const Step there = on_cuda(description, "keep"), here = step(description, "keep");
    double scale = 1e-3;  // of all gradients: those of a bias before a norm are zero in theory
    for (const auto& [name, values] : here.results)
      if (is_gradient(name)) scale = std::max(scale, 1e-3 * largest(values));
    for (const auto& [name, values] : here.results) {
      CAPTURE(name);
      const std::vector<double>& others = there.results.at(name);
      REQUIRE(others.size() == values.size());
      double difference = 0;
      for (std::size_t i = 0; i < values.size(); ++i)
        difference = std::max(difference, std::abs(others[i] - values[i]));
      CHECK(difference < 1e-4 * std::max(largest(values), scale));
    }
  });
}

TEST_CASE("cuda: `exact` has the bits of `keep`, in any order of threads and with late streams") {
  for_each_model([](const Description& description) {
    const Step keep = on_cuda(description, "keep");
    const cuda::stand_in::ScheduleScope late(3);
    CHECK(on_cuda(description, "exact").results == keep.results);
  });
}

}  // namespace lacuna
