#include "autograd/bit_plan.h"

#include "ops/codec/affine.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <queue>

namespace lacuna {
namespace {

// Seven bits cost a plane more than eight and gain nothing.
constexpr std::array widths{1, 2, 3, 4, 5, 6, 8, exact_bits};

std::int64_t bytes_of(const BitChoice& choice, int bits) {
  if (bits == exact_bits) return choice.exact_bytes;
  return (codec::rotates(bits) ? choice.rotated_bytes : choice.range_bytes) + (choice.elements * bits + 7) / 8;
}

bool may_have(const BitChoice& choice, int bits) { return bits != exact_bits || choice.exact_bytes > 0; }

/// A step of one tensor to the next width.
struct Step {
  double gain;  // of variance, per byte
  std::size_t tensor, width;
  bool operator<(const Step& other) const { return gain != other.gain ? gain < other.gain : tensor > other.tensor; }
};

}  // namespace

double code_variance(int bits) { return bits == exact_bits ? 0 : codec::relative_error(bits); }

BitPlan allocate_bits(std::span<const BitChoice> choices, std::int64_t bytes) {
  std::vector<std::size_t> width(choices.size(), 0);
  std::priority_queue<Step> steps;
  const auto cost = [&](std::size_t i, std::size_t to) {
    return bytes_of(choices[i], widths[to]) - bytes_of(choices[i], widths[to - 1]);
  };
  const auto gain = [&](std::size_t i, std::size_t to) {
    return choices[i].sensitivity * (code_variance(widths[to - 1]) - code_variance(widths[to]));
  };
  const auto offer = [&](std::size_t i, std::size_t to) {
    if (to < widths.size() && may_have(choices[i], widths[to]))
      steps.push({gain(i, to) / static_cast<double>(std::max<std::int64_t>(cost(i, to), 1)), i, to});
  };
  BitPlan plan;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    plan.bytes += bytes_of(choices[i], widths[width[i]]);
    offer(i, width[i] + 1);
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
    width[step.tensor] = step.width;
    offer(step.tensor, step.width + 1);
  }
  for (std::size_t i = 0; i < choices.size(); ++i)
    plan.variance += choices[i].sensitivity * code_variance(widths[width[i]]);
  // Whoever may buy and sell bytes at the price does at least as well as whoever has the limit.
  plan.least_variance = -price * static_cast<double>(limit);
  for (const BitChoice& choice : choices) {
    double least = std::numeric_limits<double>::infinity();
    for (const int bits : widths)
      if (may_have(choice, bits))
        least = std::min(
            least, choice.sensitivity * code_variance(bits) + price * static_cast<double>(bytes_of(choice, bits)));
    plan.least_variance += least;
  }
  plan.least_variance = std::min(plan.least_variance, plan.variance);
  for (const std::size_t w : width) plan.bits.push_back(widths[w]);
  return plan;
}

}  // namespace lacuna
