#include "data/text/language/packing.h"

#include "core/error.h"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>

namespace lacuna {

std::vector<std::vector<std::int32_t>> best_fit_bins(std::span<const std::int64_t> lengths, std::int64_t size) {
  std::vector<std::int32_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  const auto length = [&](std::int32_t i) { return lengths[static_cast<std::size_t>(i)]; };
  std::ranges::stable_sort(order, std::greater{}, length);
  std::vector<std::vector<std::int32_t>> bins;
  std::map<std::int64_t, std::deque<std::size_t>> by_room;  // bins that are begun
  for (const std::int32_t i : order) {
    expect(0 < length(i) && length(i) <= size, "a sequence of {} tokens does not fit a bin of {}", length(i), size);
    const auto found = by_room.lower_bound(length(i));
    std::size_t bin = bins.size();
    std::int64_t room = size;
    if (found == by_room.end()) {
      bins.emplace_back();
    } else {
      room = found->first;
      bin = found->second.front();
      found->second.pop_front();
      if (found->second.empty()) by_room.erase(found);
    }
    bins[bin].push_back(i);
    if (room > length(i)) by_room[room - length(i)].push_back(bin);
  }
  return bins;
}

}  // namespace lacuna
