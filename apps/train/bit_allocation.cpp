#include "apps/train/bit_allocation.h"

#include "core/error.h"

#include <algorithm>
#include <map>
#include <utility>

namespace lacuna::apps {
namespace {

std::int64_t most_of(const std::vector<std::vector<HoldCost>>& ways) {
  std::int64_t bytes = 0;
  for (const std::vector<HoldCost>& of : ways) bytes += of.back().bytes;
  return bytes;
}

}  // namespace

BitAllocation::BitAllocation(std::vector<Codable> tensors, const std::vector<double>& sensitivity,
                             std::vector<Rematerializable> derived, RegionPaths recompute)
    : tensors_(std::move(tensors)), derived_(std::move(derived)), recompute_(std::move(recompute)) {
  expect(sensitivity.size() == tensors_.size(), "{} sensitivities were given for {} tensors", sensitivity.size(),
         tensors_.size());
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Codable& tensor = tensors_[i];
    const BitChoice choice{.elements = tensor.elements,
                           .range_bytes = tensor.range_bytes,
                           .hadamard_bytes = tensor.hadamard_bytes,
                           .sensitivity = sensitivity[i],
                           .exact_bytes = tensor.bytes};
    // By variance alone, and time decides between plans. Here it would buy thousandths of a step with variance, of
    // which more than is predicted comes with 4 bits and more (docs/compression.md).
    ways_.push_back(ways_of(choice));
  }
  for (const Rematerializable& tensor : derived_)
    ways_.push_back({{0, 0}, {tensor.bytes, 0}});  // kept of what is left over: that gains no variance
}

std::int64_t BitAllocation::fewest_bytes() const {
  std::int64_t bytes = 0;
  for (const std::vector<HoldCost>& of : ways_) bytes += of.front().bytes;
  return bytes;
}

MemoryPlan BitAllocation::plan(std::int64_t most, const Predicate& fits, const Predicate& suffices) const {
  const auto fit = [&](const Ways& ways) { return fits(plan_of(ways)); };
  // Saved bytes add up, but a peak need not lie where all of them are held: a tensor that lies there may fit no better
  // than before while others would. Such a step is taken from the choice, and what is left divided anew.
  std::vector<std::vector<HoldCost>> left = ways_;
  const auto ways_within = [&](std::int64_t bytes) { return choose_ways(left, bytes).ways; };
  Ways ways(left.size());  // the fewest bits, and nothing kept
  bool blocked = false;
  do {
    blocked = false;
    std::int64_t low = fewest_bytes(), high = std::min(most, most_of(left));
    Ways next = ways_within(high);
    if (fit(next)) {
      ways = next;
      break;
    }
    for (int i = 0; i < 14 && low + 1 < high; ++i) {
      const std::int64_t middle = (low + high) / 2;
      (fit(ways_within(middle)) ? low : high) = middle;
    }
    if (const Ways within = ways_within(low); variance(within) <= variance(ways) && fit(within)) ways = within;
    next = ways_within(high);
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (next[i] <= ways[i]) continue;
      Ways more = ways;
      more[i] = next[i];
      if (fit(more)) {
        ways = more;
      } else {
        left[i].resize(next[i]);
        blocked = true;
      }
    }
  } while (blocked && !suffices(plan_of(ways)));
  for (std::size_t i = 0; i < ways_.size() && !suffices(plan_of(ways)); ++i) {
    Ways more = ways;  // what did not fit beside another's step may without it
    while (++more[i] < ways_[i].size() && fit(more)) ways = more;
  }
  return plan_of(ways);
}

MemoryPlan BitAllocation::plan_of(const Ways& ways) const {
  // Where anything is coded images are too, as a plan's bits say, however many tensors are exact.
  std::map<int, std::int64_t> tensors_of;  // that are coded, by their bits
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    if (const int bits = bit_widths.at(ways[i]); bits != exact_bits) ++tensors_of[bits];
  MemoryPlan plan{.recompute = recompute_};
  if (!tensors_of.empty())
    plan.bits = std::ranges::max_element(tensors_of, {}, [](const auto& of) { return of.second; })->first;
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    if (const int bits = bit_widths.at(ways[i]); bits != plan.bits) plan.others[tensors_[i].name] = bits;
  for (std::size_t i = 0; i < derived_.size(); ++i)
    if (ways[tensors_.size() + i] > 0) plan.kept.push_back(derived_[i].name);
  return plan;
}

double BitAllocation::variance(const Ways& ways) const {
  double sum = 0;
  for (std::size_t i = 0; i < ways.size(); ++i) sum += ways_[i][ways[i]].cost;
  return sum;
}

}  // namespace lacuna::apps
