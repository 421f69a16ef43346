// Names of checkpointed regions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lacuna {

/// Consecutive blocks of a module sequence that are recomputed as one region, such as `blocks.4-7`.
struct BlockRange {
  std::string sequence;
  std::int64_t first = 0, last = 0;
  std::int64_t count() const { return last - first + 1; }
  /// The region's name: `blocks.4` for one block, `blocks.4-7` for several.
  std::string path() const;
};
/// Parses the name of several blocks as `path` writes it; empty for any other text.
std::optional<BlockRange> parse_block_range(std::string_view text);

/// Whether the module at `path` lies in `region`, which is a module or a range of blocks.
bool lies_in(std::string_view path, std::string_view region);

}  // namespace lacuna
