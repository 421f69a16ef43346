#include "apps/train/regions.h"

#include "autograd/policies/rules.h"

#include <algorithm>
#include <map>
#include <optional>

namespace lacuna::apps {
namespace {

RegionPaths paths_of(const std::vector<Segment>& segments) {
  RegionPaths paths;
  for (const Segment& segment : segments) paths.push_back(segment.path());
  return paths;
}

/// A piece may be one block: each path once.
RegionPaths with_all(RegionPaths paths, const RegionPaths& more) {
  for (const std::string& path : more)
    if (std::ranges::find(paths, path) == paths.end()) paths.push_back(path);
  return paths;
}

}  // namespace

bool lies_in(const std::string& path, const std::string& region) {
  if (path == region || path.starts_with(region + ".")) return true;
  const std::optional<BlockRun> run = parse_block_run(region);
  if (!run) return false;
  for (std::int64_t i = run->first; i <= run->last; ++i)
    if (lies_in(path, fmt::format("{}.{}", run->sequence, i))) return true;
  return false;
}

RegionPaths RegionChange::applied_to(RegionPaths recompute) const {
  std::erase_if(recompute, [&](const std::string& region) { return std::ranges::find(drop, region) != drop.end(); });
  recompute.insert(recompute.end(), add.begin(), add.end());
  return recompute;
}

RegionChoices::RegionChoices(const StepSurvey& found) : sequences_(found.sequences) {
  for (const std::string& region : found.regions) {
    const bool inner =
        std::ranges::any_of(blocks_, [&](const std::string& block) { return region.starts_with(block + "."); });
    (inner ? parts_ : blocks_).push_back(region);
  }
  // Frozen blocks before the first that trains are no regions.
  for (Segment& sequence : sequences_)
    while (sequence.count > 0 && std::ranges::find(blocks_, sequence.block(0)) == blocks_.end())
      sequence = sequence.part(1, sequence.count - 1);
  std::erase_if(sequences_, [](const Segment& sequence) { return sequence.count == 0; });
  for (const Segment& sequence : sequences_) longest_ = std::max(longest_, sequence.count);
}

/// Every sequence in pieces of at most `length` blocks, as equal as can be.
std::vector<Segment> RegionChoices::segments(std::int64_t length) const {
  std::vector<Segment> all;
  for (const Segment& sequence : sequences_) {
    const std::int64_t pieces = (sequence.count + length - 1) / length;
    for (std::int64_t i = 0; i < pieces; ++i) {
      const std::int64_t begin = sequence.count * i / pieces;
      all.push_back(sequence.part(begin, sequence.count * (i + 1) / pieces - begin));
    }
  }
  return all;
}

RegionPaths RegionChoices::parts_of(const std::string& region) const {
  RegionPaths parts;
  for (const std::string& part : parts_)
    if (lies_in(part, region)) parts.push_back(part);
  return parts;
}

std::vector<RegionChoices::Whole> RegionChoices::wholes() const {
  std::vector<Whole> all;
  for (std::int64_t length = 1; length <= longest_; ++length) {
    all.push_back({paths_of(segments(length)), segments(length)});
    if (length == 1 && !parts_.empty()) all.push_back({parts_});
  }
  std::map<std::string, RegionPaths> by_name;
  for (const std::string& part : parts_) by_name[part.substr(part.rfind('.') + 1)].push_back(part);
  for (std::int64_t length = 1; length <= longest_; ++length) {
    const auto nest = [&](const RegionPaths& parts) {
      all.push_back({with_all(paths_of(segments(length)), length == 1 ? parts : with_all(blocks_, parts))});
    };
    if (by_name.size() > 1)
      for (const auto& [name, paths] : by_name) nest(paths);
    nest(parts_);
  }
  for (auto& [name, paths] : by_name) all.push_back({std::move(paths)});
  return all;
}

std::vector<RegionPaths> RegionChoices::less_than(const Segment& segment) const {
  std::vector<RegionPaths> choices{{}};
  for (std::int64_t count = 1; count < segment.count; ++count) choices.push_back({segment.part(0, count).path()});
  if (const std::int64_t half = segment.count / 2; half > 0) {  // no less work, but less at once
    choices.push_back({segment.part(0, half).path(), segment.part(half, segment.count - half).path()});
    return choices;
  }
  const RegionPaths parts = parts_of(segment.path());
  for (const std::string& part : parts) choices.push_back({part});
  if (parts.size() > 1) choices.push_back(parts);
  return choices;
}

std::vector<RegionChange> RegionChoices::changes(const RegionPaths& recompute) const {
  std::vector<RegionChange> all;
  std::size_t site = 0;
  const auto within = [&](const std::string& region) {
    RegionPaths inner;
    for (const std::string& other : recompute)
      if (lies_in(other, region)) inner.push_back(other);
    return inner;
  };
  for (const std::string& block : blocks_) {
    const RegionPaths now = within(block), parts = parts_of(block);
    const bool together = std::ranges::any_of(
        recompute, [&](const std::string& region) { return region != block && lies_in(block, region); });
    const bool nested = now.size() > 1 && std::ranges::find(now, block) != now.end();
    if (together || nested) continue;
    std::vector<RegionPaths> ways{{}, {block}};
    for (const std::string& part : parts) ways.push_back({part});
    if (parts.size() > 1) ways.push_back(parts);
    for (RegionPaths& way : ways) {
      if (std::ranges::is_permutation(way, now)) continue;
      const bool only_less = std::ranges::all_of(way, [&](const std::string& region) {
        return std::ranges::any_of(now, [&](const std::string& before) { return lies_in(region, before); });
      });
      all.push_back({site, now, std::move(way), only_less});
    }
    ++site;
  }
  for (const std::string& region : recompute) {
    const std::optional<BlockRun> run = parse_block_run(region);
    const bool nested = std::ranges::any_of(
        recompute, [&](const std::string& other) { return other != region && run && lies_in(other, region); });
    if (!run || nested) continue;
    const Segment segment{std::string(run->sequence), run->first, run->last - run->first + 1};
    all.push_back({site, {region}, {}, true});
    for (std::int64_t cut = 1; cut < segment.count; ++cut) {
      const std::string head = segment.part(0, cut).path(), tail = segment.part(cut, segment.count - cut).path();
      for (const RegionPaths& way : {RegionPaths{head}, RegionPaths{tail}, RegionPaths{head, tail}})
        all.push_back({site, {region}, way, true});
    }
    ++site;
  }
  return all;
}

}  // namespace lacuna::apps
