// How auto allocates the bytes of a budget: against budgets that are sums, and such as peaks are.
#include "apps/train/bit_allocation.h"

#include "core/error.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace lacuna::apps {
namespace {

constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();

Codable tensor(const char* path, std::int64_t elements) {
  return {.name = {path, "op"},
          .elements = elements,
          .bytes = 4 * elements,
          .range_bytes = elements / 50,
          .hadamard_bytes = elements / 20};
}
Rematerializable can_rematerialize(const char* path, std::int64_t bytes) {
  return {.name = {path, "op"}, .bytes = bytes};
}

BitChoice choice_of(const Codable& tensor) {
  return {.elements = tensor.elements,
          .range_bytes = tensor.range_bytes,
          .hadamard_bytes = tensor.hadamard_bytes,
          .exact_bytes = tensor.bytes};
}
bool is_kept(const MemoryPlan& plan, const Rematerializable& tensor) {
  return std::ranges::find(plan.kept, tensor.name) != plan.kept.end();
}

/// Saved bytes of a plan.
struct Step {
  std::vector<Codable> tensors;
  std::vector<Rematerializable> derived;

  std::int64_t bytes(const MemoryPlan& plan) const {
    std::int64_t sum = 0;
    for (const Codable& one : tensors) sum += held_bytes(choice_of(one), plan.bits_of(one.name));
    for (const Rematerializable& one : derived) sum += is_kept(plan, one) ? one.bytes : 0;
    return sum;
  }
  double variance(const MemoryPlan& plan, const std::vector<double>& sensitivity) const {
    double sum = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i)
      sum += sensitivity[i] * code_variance(plan.bits_of(tensors[i].name));
    return sum;
  }
};

const auto never = [](const MemoryPlan&) { return false; };
const auto always = [](const MemoryPlan&) { return true; };

}  // namespace

TEST_CASE("bit allocation: of a sum of bytes it is what the solver makes of them, or less variance") {
  const Step step{.tensors = {tensor("a", 1000), tensor("b", 4000), tensor("c", 500)}, .derived = {}};
  const std::vector<double> sensitivity{3, 1, 0.2};
  const BitAllocation allocation(step.tensors, sensitivity, {}, {});
  CHECK(allocation.fewest_bytes() == step.bytes({.bits = 1}));
  std::vector<BitChoice> choices;
  for (std::size_t i = 0; i < step.tensors.size(); ++i) {
    choices.push_back(choice_of(step.tensors[i]));
    choices.back().sensitivity = sensitivity[i];
  }
  for (std::int64_t budget = allocation.fewest_bytes(); budget < 23000; budget += 501) {
    const auto fits = [&](const MemoryPlan& plan) { return step.bytes(plan) <= budget; };
    const MemoryPlan plan = allocation.plan(unlimited, fits, never);
    CAPTURE(budget);
    CHECK(step.bytes(plan) <= budget);
    const BitPlan solved = allocate_bits(choices, budget);
    double variance = 0;
    for (std::size_t i = 0; i < choices.size(); ++i) variance += sensitivity[i] * code_variance(solved.bits[i]);
    CHECK(step.variance(plan, sensitivity) <= variance * 1.0001);
  }
  for (const std::int64_t most : {2000, 5000, 12000}) {
    const MemoryPlan plan = allocation.plan(most, always, always);
    CHECK(step.bytes(plan) <= most);
    const BitPlan solved = allocate_bits(choices, most);
    for (std::size_t i = 0; i < choices.size(); ++i) CHECK(plan.bits_of(step.tensors[i].name) == solved.bits[i]);
  }
  CHECK(!allocation.plan(unlimited, always, never).has_codes());
}

TEST_CASE("bit allocation: where one tensor is coded the plan's own bits are of codes, and exact ones are others") {
  const Step step{.tensors = {tensor("a", 1000), tensor("b", 1000), tensor("c", 1000)}, .derived = {}};
  const BitAllocation allocation(step.tensors, {1, 1, 1}, {}, {});
  int exact_ones = 0;
  for (std::int64_t budget = allocation.fewest_bytes(); budget < 12'000; budget += 250) {
    const MemoryPlan plan = allocation.plan(
        unlimited, [&](const MemoryPlan& asked) { return step.bytes(asked) <= budget; }, never);
    CAPTURE(budget);
    CHECK(plan.bits != exact_bits);
    const auto exact = std::ranges::count(plan.others, exact_bits, [](const auto& other) { return other.second; });
    exact_ones = std::max(exact_ones, static_cast<int>(exact));
  }
  CHECK(exact_ones == 2);
  CHECK(allocation.plan(unlimited, always, never).bits == exact_bits);
}

TEST_CASE("bit allocation: a tensor that lies at the peak does not keep the others from their bits") {
  const Step step{.tensors = {tensor("at_peak", 1000), tensor("b", 1000), tensor("c", 1000)}, .derived = {}};
  const BitAllocation allocation(step.tensors, {100, 1, 1}, {}, {});
  const auto fits = [&](const MemoryPlan& plan) { return plan.bits_of(step.tensors[0].name) == 1; };
  const MemoryPlan plan = allocation.plan(unlimited, fits, never);
  CHECK(plan.bits_of(step.tensors[0].name) == 1);
  CHECK(plan.bits_of(step.tensors[1].name) == exact_bits);
  CHECK(plan.bits_of(step.tensors[2].name) == exact_bits);
  // Nothing is divided anew where what was found before suffices.
  const MemoryPlan sufficient = allocation.plan(unlimited, fits, always);
  CHECK(sufficient.bits_of(step.tensors[1].name) == 1);
  CHECK(sufficient.bits_of(step.tensors[2].name) == 1);
}

TEST_CASE("bit allocation: what does not fit beside another's bits is tried again at the end") {
  const Step step{.tensors = {tensor("a", 1000), tensor("b", 1000)}, .derived = {}};
  const BitAllocation allocation(step.tensors, {2, 1}, {}, {});
  // Both may have 4 bits, and one of them 8.
  const auto fits = [&](const MemoryPlan& plan) {
    const int a = plan.bits_of(step.tensors[0].name), b = plan.bits_of(step.tensors[1].name);
    return std::max(a, b) <= 8 && std::min(a, b) <= 4;
  };
  const MemoryPlan plan = allocation.plan(unlimited, fits, never);
  const auto [least, most] = std::minmax({plan.bits_of(step.tensors[0].name), plan.bits_of(step.tensors[1].name)});
  CHECK(least == 4);
  CHECK(most == 8);
}

TEST_CASE("bit allocation: no more is looked for once a plan suffices, and nothing without tensors") {
  const Step step{.tensors = {tensor("a", 1000), tensor("b", 1000)}, .derived = {}};
  const BitAllocation allocation(step.tensors, {2, 1}, {}, {"blocks.0"});
  bool enough = false;
  const MemoryPlan plan = allocation.plan(
      unlimited,
      [&](const MemoryPlan& asked) {
        CHECK(!enough);
        return asked.bits_of(step.tensors[0].name) <= 2 && asked.bits_of(step.tensors[1].name) <= 3;
      },
      [&](const MemoryPlan& asked) { return enough = step.bytes(asked) > step.bytes({.bits = 1}); });
  CHECK(enough);
  CHECK(plan.recompute == RegionPaths{"blocks.0"});
  const MemoryPlan none = BitAllocation({}, {}, {}, {}).plan(unlimited, always, never);
  CHECK(!none.has_codes());
  CHECK(none.kept.empty());
  CHECK_THROWS_AS(BitAllocation(step.tensors, {1}, {}, {}), Error);
}

TEST_CASE("bit allocation: what can be derived is kept of what is left over, and costs no tensor a bit") {
  const Step step{.tensors = {tensor("a", 1000)},
                  .derived = {can_rematerialize("b", 300), can_rematerialize("c", 5000)}};
  const BitAllocation allocation(step.tensors, {1}, step.derived, {});
  for (const std::int64_t over : {0, 299, 300, 4999, 5300}) {
    const std::int64_t exact = step.tensors[0].bytes;
    const MemoryPlan plan = allocation.plan(
        unlimited, [&](const MemoryPlan& asked) { return step.bytes(asked) <= exact + over; }, never);
    CAPTURE(over);
    CHECK(plan.bits_of(step.tensors[0].name) == exact_bits);
    CHECK(is_kept(plan, step.derived[1]) == (over >= 5300));
    CHECK(is_kept(plan, step.derived[0]) == (over >= 300));
  }
}

}  // namespace lacuna::apps
