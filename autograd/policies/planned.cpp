#include "autograd/policies/planned.h"

#include "autograd/block_range.h"
#include "autograd/policies/lossless.h"
#include "autograd/policies/quantizing.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

namespace lacuna {

Hold planned_hold(const SavedTensorInfo& info, int bits, bool quantizes, std::int64_t group_size) {
  if (!quantizes) return decide_exactly(info);
  const Hold lossless = beside_quantized(decide_exactly(info), info);
  if (lossless.kind != Hold::keep || bits == exact_bits || !worth_quantizing(info)) return lossless;
  // Images have 8 bits originally.
  if (info.is_input()) return hold_quantized(lossless, info, quant::min_error_config(8, {}));
  return hold_quantized(lossless, info, run_config(info, bits, group_size));
}

PlannedRegions::PlannedRegions(const std::vector<std::string>& regions) {
  for (const std::string& path : regions) {
    Region& region = regions_[path];
    if (const std::optional<BlockRange> range = parse_block_range(path)) {
      region.count = range->count();
      ranges_[fmt::format("{}.{}", range->sequence, range->first)].push_back(path);
    }
  }
  for (auto& [first, paths] : ranges_)
    std::ranges::sort(paths, std::greater(), [&](const std::string& path) { return regions_[path].count; });
}

std::int64_t PlannedRegions::recomputes(const ModuleRange& modules, std::string_view within) {
  if (!modules.is_sequence()) {
    const auto found = regions_.find(std::string(modules.path));
    if (found == regions_.end() || modules.path == within) return 0;
    found->second.used = true;
    return 1;
  }
  const auto ranges = ranges_.find(fmt::format("{}.{}", modules.path, modules.first));
  if (ranges == ranges_.end()) return 0;
  for (const std::string& path : ranges->second) {
    Region& region = regions_.at(path);
    // A region of the whole sequence has the sequence's name.
    const bool runs_now = within == path || (region.count == modules.count && within == modules.path);
    if (runs_now || modules.first + region.count > modules.end) continue;
    region.used = true;
    return region.count;
  }
  return 0;
}

std::vector<std::string> PlannedRegions::unused() const {
  std::vector<std::string> paths;
  for (const auto& [path, region] : regions_)
    if (!region.used) paths.push_back(path);
  return paths;
}

PlannedPolicy::PlannedPolicy(MemoryPlan plan, std::string_view name, OffloadStore* store)
    : MemoryPolicy(plan.quantizes()), name_(name), store_(store), group_size_(plan.group_size), regions_(plan.regions) {
  for (const auto& [key, choice] : plan.tensors) tensors_.emplace(key, Planned{choice});
}

Hold PlannedPolicy::decide(const SavedTensorInfo& info) {
  const auto found = tensors_.find(info.key());
  if (found == tensors_.end()) return planned_hold(info, exact_bits, quantizes(), group_size_);
  found->second.used = true;
  const auto& [bits, kept, offloaded] = found->second.choice;
  Hold hold = kept ? Hold{.kind = Hold::keep} : planned_hold(info, bits, quantizes(), group_size_);
  if (offloaded && can_offload(hold, info)) hold.store = store_;
  return hold;
}

std::vector<std::string> PlannedPolicy::unmatched() const {
  std::vector<std::string> tensors, lines;
  for (const auto& [key, tensor] : tensors_)
    if (!tensor.used) tensors.push_back(key);
  const auto add = [&](std::string_view what, std::vector<std::string> names) {
    if (names.empty()) return;
    constexpr std::size_t shown = 8;
    const std::size_t count = names.size();
    std::ranges::sort(names);
    names.resize(std::min(shown, count));
    lines.push_back(fmt::format("the memory plan is for another step: it names {} {} that this one does not have: {}{}",
                                count, what, fmt::join(names, ", "), count > shown ? " and others" : ""));
  };
  add("saved tensors", std::move(tensors));
  add("regions", regions_.unused());
  return lines;
}

Fields AutoOptions::fields() {
  return {
      field("codes", &AutoOptions::codes, "whether the plan may quantize; otherwise it is lossless"),
      field("group_size", &AutoOptions::group_size, group_sizes, group_size_help),
      field("noise_price", &AutoOptions::noise_price, at_least(0),
            "step time that added variance of the gradient is worth: a plan minimizes time + noise_price x variance, "
            "relative to an exact step")};
}

namespace {

/// `auto` before a plan is made for its budget: nothing is quantized or recomputed.
const struct RegisterAuto {
  RegisterAuto() {
    memory_policies().add("auto", {AutoOptions(), [](const Options& given) {
                                     MemoryPlan plan;
                                     plan.group_size = given.as<AutoOptions>().group_size;
                                     return std::make_unique<PlannedPolicy>(std::move(plan), "auto");
                                   }});
  }
} automatic;

}  // namespace

}  // namespace lacuna
