// A policy refined by the user: rules for single tensors, and regions to recompute.
#pragma once

#include "autograd/policy.h"

#include <optional>
#include <string>
#include <vector>

namespace lacuna {

/// What to do with the tensors that match; of several rules the first that applies wins.
struct HoldRule {
  enum class How : std::uint8_t { keep, exact, quantize, slope, recompute };
  std::string path = "*";   // glob on the path of the module that made the tensor; of `recompute`: of the region
  std::string op = "*";     // glob on the op that made it
  std::string slot = "*";   // glob on which of that module's tensors it is, as SavedTensorInfo::name has it
  std::string user = "*";   // glob on the ops that read it: one of them must match
  How how = How::exact;     // exact: what the policy `exact` would do
  int bits = 8;             // of `code`
  bool by_columns = false;  // groups of columns within heads or channels, instead of runs
  std::int64_t group_size = 256;

  bool operator==(const HoldRule&) const = default;
};

/// `hold` as a configuration writes it: `keep`, `exact`, `int1` to `int8`, `slope2`, `recompute`; nothing where it is
/// none.
std::optional<std::pair<HoldRule::How, int>> parse_hold(std::string_view text);
std::string hold_text(const HoldRule& rule);

/// Blocks in a row of a sequence of modules, recomputed as one region: `blocks.4-7`.
struct BlockRun {
  std::string_view sequence;  // of the pattern that was read
  std::int64_t first, last;
};
std::optional<BlockRun> parse_block_run(std::string_view pattern);

/// Asks the rules first, then `base`. `recompute`: patterns on paths of modules and of sequences of them, and runs of
/// blocks.
std::unique_ptr<MemoryPolicy> refine(std::unique_ptr<MemoryPolicy> base, std::vector<HoldRule> rules,
                                     std::vector<std::string> recompute);

}  // namespace lacuna
