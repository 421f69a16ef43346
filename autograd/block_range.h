// Names of checkpointed regions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lacuna {

/// Consecutive blocks of a sequence of modules, recomputed as one region: `blocks.4-7`.
struct BlockRange {
  std::string sequence;
  std::int64_t first = 0, last = 0;
  std::int64_t count() const { return last - first + 1; }
  /// `blocks.4` of one block, `blocks.4-7` of several.
  std::string path() const;
};
/// Several blocks, as `path` writes them; nothing for another text.
std::optional<BlockRange> parse_block_range(std::string_view text);

/// Whether the module `path` lies in `region`: a module or a range of blocks.
bool lies_in(std::string_view path, std::string_view region);

}  // namespace lacuna
