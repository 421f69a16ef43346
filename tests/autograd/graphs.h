// Helpers with which the autograd tests build graphs.
#pragma once

#include "autograd/checkpoint.h"
#include "autograd/tape.h"
#include "core/random.h"
#include "ops/arithmetic/reduce.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace lacuna {

/// Values in [-1.5, 1.5) that depend on `site` alone.
inline Tensor test_values(const Shape& shape, std::uint32_t site, DType dtype = DType::f64) {
  const RandomStream stream{.seed = 7, .step = 0, .site = site};
  std::vector<double> values(static_cast<std::size_t>(shape.count()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 3 * static_cast<double>(stream.uniform(i)) - 1.5;
  return Tensor::from(std::span<const double>(values), shape, dtype);
}

inline Variable test_leaf(const Shape& shape, std::uint32_t site, DType dtype = DType::f64) {
  return Variable(test_values(shape, site, dtype), true, "leaf" + std::to_string(site));
}

/// A leaf whose memory is a parameter's.
inline Variable test_parameter(const Shape& shape, std::uint32_t site, DType dtype = DType::f64) {
  const Tensor tensor = test_values(shape, site, dtype);
  tensor.set_purpose(Purpose::parameters);
  return Variable(tensor, true, "parameter" + std::to_string(site));
}

/// One policy of each name, with its initial settings, for all tests.
inline MemoryPolicy& policy(std::string_view name) {
  static std::map<std::string, std::unique_ptr<MemoryPolicy>, std::less<>> made;
  std::unique_ptr<MemoryPolicy>& one = made[std::string(name)];
  if (!one) one = make_policy(name);
  return *one;
}

/// `function(x)` as a checkpointed region.
inline Variable checkpoint_of(Label path, Variable x, const std::function<Variable(Variable)>& function) {
  return checkpoint(path, function, std::move(x));
}

inline Variable total(Variable x) {
  const Shape shape = x.shape();
  return apply(Sum{shape}, std::move(x));
}

/// Compares the gradients of `loss` (of leaves made from `points`, f64; a scalar) with central differences.
template <class Loss>
void check_gradients(const Loss& loss, const std::vector<Tensor>& points, std::string_view policy_name = "exact") {
  std::vector<Variable> leaves;
  for (const Tensor& point : points) leaves.emplace_back(point.clone(), true);
  {
    Tape tape(policy(policy_name));
    const Recording recording(tape);
    tape.backward(loss(leaves));
  }
  constexpr double step = 1e-5;
  for (std::size_t k = 0; k < points.size(); ++k) {
    REQUIRE(leaves[k].grad().defined());
    const std::vector<double> gradient = leaves[k].grad().to_vector();
    for (std::int64_t i = 0; i < points[k].count(); ++i) {
      const auto at = [&](double offset) {
        std::vector<Variable> moved;
        for (const Tensor& point : points) moved.emplace_back(point.clone());
        moved[k].tensor().template data<double>()[i] += offset;
        return loss(moved).tensor().item();
      };
      const double difference = (at(step) - at(-step)) / (2 * step);
      CHECK(gradient[static_cast<std::size_t>(i)] == doctest::Approx(difference).epsilon(1e-6).scale(1));
    }
  }
}

/// The message of the error that `f` ends with.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

inline std::int64_t live_bytes(Purpose purpose, Device device = Device::cpu) {
  return at(ledger(device).live(), purpose);
}

}  // namespace lacuna
