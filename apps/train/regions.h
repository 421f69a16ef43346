// What of a model can be recomputed, and in which ways: the choices that a planner has.
#pragma once

#include "apps/train/survey.h"

#include <cstdint>
#include <string>
#include <vector>

namespace lacuna::apps {

/// What is recomputed, as `memory.recompute` has it.
using RegionPaths = std::vector<std::string>;

/// Whether the module `path` lies in what `region` names: a module, or blocks in a row.
bool lies_in(const std::string& path, const std::string& region);

/// Recomputes `add` in place of `drop`.
struct RegionChange {
  std::size_t site = 0;  // changes of one site exclude each other
  RegionPaths drop, add;
  bool only_less = false;  // nothing runs again that did not before

  RegionPaths applied_to(RegionPaths recompute) const;
};

/// The regions of one model: its blocks, and parts within them.
class RegionChoices {
 public:
  /// As `survey` finds them.
  explicit RegionChoices(const StepSurvey& found);

  const RegionPaths& blocks() const { return blocks_; }
  const RegionPaths& parts() const { return parts_; }

  struct Whole {
    RegionPaths paths;
    std::vector<Segment> segments{};  // that they are, if they are
  };
  /// What covers the whole model, the least work first: all blocks, or all parts of blocks; several blocks as one;
  /// blocks with their parts within them, of one name or all, which run again once more; and several blocks, the blocks
  /// and their parts.
  /// Last, where what a block holds while it runs again is the peak: the parts of one name alone.
  std::vector<Whole> wholes() const;

  /// What may be recomputed in place of a whole segment, the least work first.
  std::vector<RegionPaths> less_than(const Segment& segment) const;

  /// Every other way to recompute one block, and what is recomputed together: none of it, parts, all, cut in two. What
  /// lies within regions that run again is left as it is.
  std::vector<RegionChange> changes(const RegionPaths& recompute) const;

 private:
  std::vector<Segment> segments(std::int64_t length) const;
  RegionPaths parts_of(const std::string& region) const;

  RegionPaths blocks_, parts_;
  std::vector<Segment> sequences_;  // from the first block on that trains
  std::int64_t longest_ = 1;        // of them, in blocks
};

}  // namespace lacuna::apps
