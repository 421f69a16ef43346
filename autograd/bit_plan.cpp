#include "autograd/bit_plan.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <queue>

namespace lacuna {
namespace {

// Seven bits cost a plane more than eight and gain nothing.
constexpr std::array widths{1, 2, 3, 4, 5, 6, 8};

std::int64_t code_bytes(const BitChoice& choice, int bits) { return (choice.elements * bits + 7) / 8; }

/// A step of one tensor to the next width.
struct Step {
  double gain;  // of variance, per byte
  std::size_t tensor, width;
  bool operator<(const Step& other) const { return gain != other.gain ? gain < other.gain : tensor > other.tensor; }
};

}  // namespace

double code_variance(int bits) {
  const double levels = static_cast<double>((1 << bits) - 1);
  return 1 / (levels * levels);
}

BitPlan allocate_bits(std::span<const BitChoice> choices, std::int64_t bytes) {
  std::vector<std::size_t> width(choices.size(), 0);
  std::priority_queue<Step> steps;
  const auto cost = [&](std::size_t i, std::size_t to) {
    return code_bytes(choices[i], widths[to]) - code_bytes(choices[i], widths[to - 1]);
  };
  const auto gain = [&](std::size_t i, std::size_t to) {
    return choices[i].sensitivity * (code_variance(widths[to - 1]) - code_variance(widths[to]));
  };
  const auto offer = [&](std::size_t i, std::size_t to) {
    if (to < widths.size())
      steps.push({gain(i, to) / static_cast<double>(std::max<std::int64_t>(cost(i, to), 1)), i, to});
  };
  BitPlan plan;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    plan.bytes += choices[i].range_bytes + code_bytes(choices[i], widths[0]);
    plan.variance += choices[i].sensitivity;
    offer(i, 1);
  }
  const std::int64_t limit = std::max(bytes, plan.bytes);
  double price = 0;  // of a byte, in variance: the rate of the first step that does not fit
  while (!steps.empty()) {
    const Step step = steps.top();
    steps.pop();
    const std::int64_t more = cost(step.tensor, step.width);
    if (plan.bytes + more > limit) {  // smaller ones may still fit
      price = std::max(price, step.gain);
      continue;
    }
    plan.bytes += more;
    plan.variance -= gain(step.tensor, step.width);
    width[step.tensor] = step.width;
    offer(step.tensor, step.width + 1);
  }
  // Whoever may buy and sell bytes at the price does at least as well as whoever has the limit.
  plan.least_variance = -price * static_cast<double>(limit);
  for (const BitChoice& choice : choices) {
    double least = std::numeric_limits<double>::infinity();
    for (const int bits : widths)
      least = std::min(least, choice.sensitivity * code_variance(bits) +
                                  price * static_cast<double>(choice.range_bytes + code_bytes(choice, bits)));
    plan.least_variance += least;
  }
  plan.least_variance = std::min(plan.least_variance, plan.variance);
  for (const std::size_t w : width) plan.bits.push_back(widths[w]);
  return plan;
}

}  // namespace lacuna
