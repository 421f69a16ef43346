#include "data/hold_out.h"

#include "data/permutation.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace lacuna {
namespace {

using Places = std::vector<std::size_t>;

std::uint64_t hash_of(std::string_view text, std::uint64_t seed) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

/// Uniform in [0, 1), the same for a name and a seed on every machine.
double place_of_name(const std::string& name, std::uint64_t seed) {
  return static_cast<double>(hash_of(name, seed) >> 11U) * 0x1p-53;
}

/// Marks the samples that were held out before: by their paths, or where their folders have changed by the names
/// within.
void hold_out_again(const std::vector<std::string>& names, const std::vector<std::string>& paths, const HeldOut& before,
                    std::vector<bool>& held) {
  std::set<std::string, std::less<>> gone(before.names.begin(), before.names.end());
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const auto known = gone.find(before.are_hashes ? hash_of_text(paths[i]) : paths[i]);
    held[i] = known != gone.end();
  }
  if (names == paths) return;  // samples have no folders
  for (const std::string& path : paths) gone.erase(path);
  const auto count = [](auto& counts, std::string_view name) { ++counts[std::string(name)]; };
  std::map<std::string, int, std::less<>> of_gone, of_samples;
  for (const std::string& path : gone) count(of_gone, std::string_view(path).substr(path.find('/') + 1));
  for (const std::string& name : names)
    if (of_gone.contains(name)) count(of_samples, name);
  for (std::size_t i = 0; i < names.size(); ++i)
    if (const auto found = of_samples.find(names[i]); found != of_samples.end() && found->second == 1)
      held[i] = held[i] || of_gone.find(names[i])->second == 1;
}

void hold_out_by_name(const std::vector<std::string>& names, const Places& samples, const HoldOutOptions& options,
                      std::vector<bool>& held) {
  std::vector<std::pair<double, std::size_t>> order;  // of those that were not held out before
  for (const std::size_t i : samples)
    if (!held[i]) order.emplace_back(place_of_name(names[i], options.seed), i);
  if (order.empty() || samples.size() < 2) return;
  for (const auto& [at, i] : order) held[i] = at < options.fraction;
  const auto is_held = [&](std::size_t i) -> bool { return held[i]; };
  if (options.before == nullptr && std::ranges::none_of(samples, is_held)) held[std::ranges::min(order).second] = true;
  if (std::ranges::all_of(samples, is_held)) held[std::ranges::max(order).second] = false;
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

std::string hash_of_text(std::string_view text) {
  return fmt::format("{:016x}", hash_of(text, 0));
}

std::string describe_held_out(const HeldOut& sides, double fraction) {
  const double held = static_cast<double>(std::ssize(sides.names));
  return fmt::format("{:.3g} % held out by data.val_fraction={}",
                     100 * held / (held + static_cast<double>(sides.trained_on)), fraction);
}

std::vector<bool> held_out(const std::vector<std::string>& names, const std::vector<std::string>& paths,
                           const std::vector<std::int32_t>& labels, const HoldOutOptions& options) {
  std::map<std::int32_t, Places> of_class;
  for (std::size_t i = 0; i < labels.size(); ++i) of_class[labels[i]].push_back(i);
  std::vector<bool> held(labels.size());
  if (options.before && options.how == HoldOut::by_name) hold_out_again(names, paths, *options.before, held);
  for (const auto& [label, samples] : of_class) {
    if (options.how == HoldOut::by_name)
      hold_out_by_name(names, samples, options, held);
    else if (samples.size() > 1)
      hold_out_by_place(label, samples, options, held);
  }
  return held;
}

}  // namespace lacuna
