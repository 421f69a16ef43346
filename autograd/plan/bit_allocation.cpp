#include "autograd/plan/bit_allocation.h"

#include "ops/quantize/quantize.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <queue>

namespace lacuna {
namespace {

/// A step from a tensor's way to one that costs no more.
struct Step {
  double gain;  // cost saved per byte
  std::size_t tensor, from, to;
  bool operator<(const Step& other) const { return gain != other.gain ? gain < other.gain : tensor > other.tensor; }
};

std::int64_t more_bytes(const std::vector<HoldCost>& ways, std::size_t from, std::size_t to) {
  return ways[to].bytes - ways[from].bytes;
}

/// The step from way `from` that saves the most cost per byte, among those that add at most `left` bytes; of equal ones
/// the first.
std::optional<Step> best_step(const std::vector<HoldCost>& ways, std::size_t tensor, std::size_t from,
                              std::int64_t left) {
  std::optional<Step> best;
  for (std::size_t to = from + 1; to < ways.size(); ++to) {
    const std::int64_t more = more_bytes(ways, from, to);
    const double gain = (ways[from].cost - ways[to].cost) / static_cast<double>(std::max<std::int64_t>(more, 1));
    if (more <= left && gain >= 0 && (!best || gain > best->gain)) best = Step{gain, tensor, from, to};
  }
  return best;
}

}  // namespace

HoldPlan choose_ways(std::span<const std::vector<HoldCost>> tensors, std::int64_t bytes) {
  HoldPlan plan{.ways = std::vector<std::size_t>(tensors.size(), 0)};
  std::priority_queue<Step> steps;
  const auto offer = [&](std::size_t i, std::int64_t left) {
    if (const std::optional<Step> step = best_step(tensors[i], i, plan.ways[i], left)) steps.push(*step);
  };
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    plan.bytes += tensors[i].front().bytes;
    offer(i, std::numeric_limits<std::int64_t>::max());
  }
  const std::int64_t limit = std::max(bytes, plan.bytes);
  std::optional<double> first;  // the rate of the first step that does not fit
  while (!steps.empty()) {
    const Step step = steps.top();
    steps.pop();
    const std::int64_t left = limit - plan.bytes, more = more_bytes(tensors[step.tensor], step.from, step.to);
    if (more > left) {  // a smaller step may still fit
      first = first.value_or(step.gain);
      offer(step.tensor, left);
      continue;
    }
    plan.bytes += more;
    plan.ways[step.tensor] = step.to;
    offer(step.tensor, std::numeric_limits<std::int64_t>::max());
  }
  // Lagrangian relaxation: bytes have a price in place of the limit, so each tensor's choice is independent.
  const double price = first.value_or(0);
  plan.least_cost = -price * static_cast<double>(limit);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    plan.cost += tensors[i][plan.ways[i]].cost;
    double least = std::numeric_limits<double>::infinity();
    for (const HoldCost& way : tensors[i]) least = std::min(least, way.cost + price * static_cast<double>(way.bytes));
    plan.least_cost += least;
  }
  plan.least_cost = std::min(plan.least_cost, plan.cost);
  return plan;
}

std::int64_t held_bytes(const BitChoice& choice, int bits) {
  if (bits == exact_bits) return choice.exact_bytes;
  return choice.range_bytes.at(static_cast<std::size_t>(bits)) + quant::code_bytes(choice.elements, bits);
}

double code_variance(int bits) { return bits == exact_bits ? 0 : quant::relative_error(bits); }

namespace {

/// The ways of `bit_widths`, without `exact_bits` if the tensor may not be kept.
std::vector<HoldCost> ways_of(const BitChoice& choice) {
  std::vector<HoldCost> ways;
  for (const int bits : bit_widths)
    if (bits != exact_bits || choice.exact_bytes > 0)
      ways.push_back({held_bytes(choice, bits), choice.sensitivity * code_variance(bits)});
  return ways;
}

}  // namespace

BitPlan allocate_bits(std::span<const BitChoice> choices, std::int64_t bytes) {
  std::vector<std::vector<HoldCost>> tensors;
  for (const BitChoice& choice : choices) tensors.push_back(ways_of(choice));
  const HoldPlan plan = choose_ways(tensors, bytes);
  BitPlan allocated{.bits = {}, .bytes = plan.bytes, .variance = plan.cost, .least_variance = plan.least_cost};
  for (const std::size_t way : plan.ways) allocated.bits.push_back(bit_widths[way]);
  return allocated;
}

}  // namespace lacuna
