#include "data/hold_out.h"

#include "data/permutation.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace lacuna {
namespace {

using Places = std::vector<std::size_t>;

/// Uniform in [0, 1), the same for a name and a seed on every machine.
double place_of_name(const std::string& name, std::uint64_t seed) {
  return static_cast<double>(XXH3_64bits_withSeed(name.data(), name.size(), seed) >> 11U) * 0x1p-53;
}

void hold_out_by_name(const std::vector<std::string>& names, const std::vector<std::string>& paths,
                      const Places& samples, const HoldOutOptions& options, const std::set<std::string_view>& before,
                      std::vector<bool>& held) {
  std::vector<std::pair<double, std::size_t>> order;
  for (const std::size_t i : samples) order.emplace_back(place_of_name(names[i], options.seed), i);
  std::int64_t count = 0;
  for (const auto& [at, i] : order) {
    held[i] = at < options.fraction || before.contains(paths[i]);
    count += held[i] ? 1 : 0;
  }
  if (count == 0 && options.before == nullptr) held[std::ranges::min(order).second] = true;
  if (count == std::ssize(order)) held[std::ranges::max(order).second] = false;
}

void hold_out_by_place(std::int32_t label, const Places& samples, const HoldOutOptions& options,
                       std::vector<bool>& held) {
  const auto count = std::ssize(samples);
  const Permutation order(count, {options.seed, static_cast<std::uint32_t>(label), random_site("data/hold_out")});
  const auto wanted =
      std::clamp<std::int64_t>(std::llround(options.fraction * static_cast<double>(count)), 1, count - 1);
  for (std::int64_t i = 0; i < wanted; ++i) held[samples[static_cast<std::size_t>(order(i))]] = true;
}

}  // namespace

std::vector<bool> held_out(const std::vector<std::string>& names, const std::vector<std::string>& paths,
                           const std::vector<std::int32_t>& labels, const HoldOutOptions& options) {
  std::set<std::string_view> before;
  if (options.before) before.insert(options.before->names.begin(), options.before->names.end());
  std::map<std::int32_t, Places> of_class;
  for (std::size_t i = 0; i < labels.size(); ++i) of_class[labels[i]].push_back(i);
  std::vector<bool> held(labels.size());
  for (const auto& [label, samples] : of_class) {
    if (samples.size() < 2) continue;
    if (options.how == HoldOut::by_place)
      hold_out_by_place(label, samples, options, held);
    else
      hold_out_by_name(names, paths, samples, options, before, held);
  }
  return held;
}

}  // namespace lacuna
