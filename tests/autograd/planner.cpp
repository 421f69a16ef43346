// The planner against brute force, on a chain of ten regions of different sizes.
#include "autograd/plan/planner.h"
#include "autograd/tape.h"

#include "autograd/block_range.h"
#include "autograd/checkpoint.h"
#include "autograd/file_store.h"
#include "autograd/policies/planned.h"
#include "core/ledger.h"
#include "ops/curves/activation.h"
#include "ops/products/linear.h"

#include "tests/refusal.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

namespace lacuna {
namespace {

constexpr int regions = 10;
constexpr std::int64_t samples = 8, rows = 64, width = 32;

std::string path_of(int region) { return fmt::format("part{}", region); }

/// x + what two layers make of it, ten times, each with another hidden width.
class Chain {
 public:
  Chain() {
    for (int i = 0; i < regions; ++i) {
      const std::int64_t hidden = 16 * (1 + (7 * i) % regions);
      for (const Shape& shape : {Shape{hidden, width}, Shape{width, hidden}})
        weights_.emplace_back(Tensor::empty(shape, DType::f32, Device::meta, Purpose::parameters), true);
    }
  }

  /// Runs a step with newly allocated gradients.
  StepBytes step(MemoryPolicy& policy, Observer* observer) const {
    for (const Variable& weight : weights_) weight.edge().leaf->gradient = {};
    Ledger& account = ledger(Device::meta);
    account.reset_peak();
    Tape tape(policy);
    tape.set_observer(observer);
    Variable x = [&] {
      const Recording recording(tape);
      Variable in(Tensor::empty({samples, rows, width}, DType::f32, Device::meta, Purpose::data), true);
      for (int i = 0; i < regions; ++i) in = part(i, std::move(in));
      return in;
    }();
    tape.backward({{x, Tensor::full(x.shape(), 1, x.dtype(), Device::meta)}});
    return {tape.saved_bytes(), account.peak()};
  }

 private:
  Variable part(int i, Variable x) const {
    const std::string path = path_of(i);
    const auto body = [this, i, path](Variable in) {
      const AllocationScope scope({Purpose::transient, {}, Label(path)});
      const auto at = static_cast<std::size_t>(2 * i);
      Variable hidden = apply(Linear{}, std::move(in), weights_[at], Variable());
      return apply(Linear{}, apply(Gelu{}, std::move(hidden)), weights_[at + 1], Variable());
    };
    return recomputes({.path = path}) > 0 ? checkpoint(Label(path), body, std::move(x)) : body(std::move(x));
  }

  std::vector<Variable> weights_;
};

}  // namespace

TEST_CASE("planner: within 5 % of the best of all sets of regions, and never over the budget") {
  const Chain chain;
  const MetaStep step = [&](MemoryPolicy& policy, Observer* observer) { return chain.step(policy, observer); };
  const CostTable costs;
  struct Choice {
    StepBytes bytes;
    double seconds;
  };
  std::vector<Choice> all;
  for (int set = 0; set < 1 << regions; ++set) {
    std::vector<std::string> paths;
    for (int i = 0; i < regions; ++i)
      if ((set >> i & 1) != 0) paths.push_back(path_of(i));
    const StepGraph graph = StepGraph::record(step, paths, exact_bits, 256, costs);
    double seconds = graph.seconds();
    for (const GraphTensor& tensor : graph.tensors)
      if (tensor.can_rematerialize) seconds += costs.rematerialize_seconds(tensor.size.exact_bytes);
    all.push_back({{graph.recorded_bytes.saved, graph.recorded_bytes.peak}, seconds});
  }
  for (const bool of_saved : {true, false})
    for (const double part : {0.4, 0.5, 0.6, 0.75, 0.9}) {
      const auto bytes = [&](const Choice& choice) { return of_saved ? choice.bytes.saved : choice.bytes.peak; };
      const auto budget = static_cast<std::int64_t>(part * static_cast<double>(bytes(all.front())));
      double best = std::numeric_limits<double>::infinity();
      for (const Choice& choice : all)
        if (bytes(choice) <= budget) best = std::min(best, choice.seconds);
      const PlannerResult result =
          plan_memory({.step = step, .budget = budget, .of_saved = of_saved, .quantize = false});
      INFO(part, of_saved ? " of saved bytes: " : " of the peak: ", result.plan.text);
      CHECK(result.fits == (best < std::numeric_limits<double>::infinity()));
      if (!result.fits) continue;
      PlannedPolicy policy(result.plan);
      const StepBytes real = chain.step(policy, nullptr);
      CHECK(policy.unmatched().empty());
      CHECK((of_saved ? real.saved : real.peak) == result.plan.bytes);
      CHECK(result.plan.bytes <= budget);
      CHECK(result.plan.seconds * all.front().seconds <= 1.05 * best);
    }
}

TEST_CASE("step graph: predicts a plan's saved bytes to the byte, and its peak nearly") {
  const Chain chain;
  const MetaStep step = [&](MemoryPolicy& policy, Observer* observer) { return chain.step(policy, observer); };
  const std::vector<std::string> recomputed{path_of(1), path_of(4)};
  const StepGraph graph = StepGraph::record(step, recomputed, 8, 256, {});
  REQUIRE(graph.regions.size() == regions);
  MemoryPlan plan{.regions = recomputed};
  std::vector<HeldBytes> held;
  int bits = 1;
  for (const GraphTensor& tensor : graph.tensors) {
    held.push_back({.bytes = tensor.held_bytes});
    if (!tensor.can_quantize) continue;
    const MemoryPlan::Choice choice{.bits = tensor.is_input ? 8 : 1 + bits++ % 6};
    plan.tensors[tensor.key] = choice;
    held.back().bytes = tensor.bytes(choice);
  }
  CHECK(plan.quantizes());
  PlannedPolicy policy(plan);
  const StepBytes real = chain.step(policy, nullptr), predicted = graph.bytes(held);
  CHECK(predicted.saved == real.saved);
  // The scratch of Hadamard transforms is not predicted.
  CHECK(static_cast<double>(predicted.peak) == doctest::Approx(static_cast<double>(real.peak)).epsilon(0.01));
}

TEST_CASE("planner: a budget to fill keeps what exact would compute again, as far as it fits and without a code") {
  const Chain chain;
  const MetaStep step = [&](MemoryPolicy& policy, Observer* observer) { return chain.step(policy, observer); };
  const std::int64_t exact = step(*make_policy("exact"), nullptr).peak, keep = step(*make_policy("keep"), nullptr).peak;
  REQUIRE(keep > exact);
  double slower = std::numeric_limits<double>::infinity();
  for (const double part : {0.0, 0.3, 0.6, 1.0, 2.0}) {
    const auto budget = exact + static_cast<std::int64_t>(part * static_cast<double>(keep - exact));
    const MemoryPlan plan = plan_memory({.step = step, .budget = budget, .fill = true}).plan;
    INFO(part, plan.text);
    PlannedPolicy policy(plan);
    CHECK(step(policy, nullptr).peak == plan.bytes);
    CHECK(policy.unmatched().empty());
    CHECK(plan.bytes <= budget);
    CHECK_FALSE(plan.quantizes());
    CHECK(plan.regions.empty());
    CHECK(plan.seconds <= slower);
    slower = plan.seconds;
    if (part >= 1) CHECK(plan.bytes == keep);
    if (part == 0.6) CHECK(plan.bytes > exact);
  }
  CHECK(plan_memory({.step = step, .budget = 2 * keep}).plan.bytes == exact);
}

TEST_CASE("planner: a fast disk takes what the budget has no room for, a slow one takes nothing") {
  const Chain chain;
  FileStore store({.folder = {}, .buffer = 1 << 16, .device = Device::meta});
  const MetaStep step = [&](MemoryPolicy& policy, Observer* observer) { return chain.step(policy, observer); };
  PlannedPolicy exact(MemoryPlan{});
  const std::int64_t whole = chain.step(exact, nullptr).peak, budget = whole * 3 / 4;
  for (const bool is_fast : {true, false}) {
    CAPTURE(is_fast);
    CostTable costs;
    costs.macs = 1e9;  // recomputing is dear
    costs.disk = is_fast ? 1e13 : 1e3;
    const PlannerResult result =
        plan_memory({.step = step, .budget = budget, .quantize = false, .store = &store, .costs = costs});
    INFO(result.plan.text);
    CHECK(result.fits);
    CHECK(result.plan.offloads() == is_fast);
    CHECK(result.plan.regions.empty() == is_fast);
    PlannedPolicy policy(parse_plan(to_json(result.plan), "plan"), "planned", &store);
    CHECK(chain.step(policy, nullptr).peak == result.plan.bytes);
    CHECK(result.plan.bytes <= budget);
    CHECK(store.bytes() == 0);
  }
}

TEST_CASE("planned: what a plan names and the step does not have is told by key") {
  const Chain chain;
  MemoryPlan plan;
  plan.tensors["nowhere linear"] = {.bits = 4};
  plan.regions = {"part0", "part77"};
  PlannedPolicy policy(plan);
  chain.step(policy, nullptr);
  const std::vector<std::string> lines = policy.unmatched();
  REQUIRE(lines.size() == 2);
  test::check_says(lines[0], "nowhere linear");
  test::check_says(lines[1], "part77");
  CHECK(lines[1].find("part0") == std::string::npos);
}

TEST_CASE("regions: a range of blocks has the modules whose numbers are in it") {
  CHECK(lies_in("blocks.4", "blocks.4-7"));
  CHECK(lies_in("blocks.7.attn", "blocks.4-7"));
  CHECK(!lies_in("blocks.8", "blocks.4-7"));
  CHECK(!lies_in("blocks.40", "blocks.4-7"));
  CHECK(lies_in("blocks.12.mlp.fc1", "blocks.10-12"));
  CHECK(lies_in("blocks.1", "blocks"));
  CHECK(!lies_in("blocks.10", "blocks.1"));
  CHECK(!lies_in("head", "blocks"));
}

}  // namespace lacuna
