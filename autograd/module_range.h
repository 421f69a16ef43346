// The part of a model that a memory policy may recompute in backward as one region.
#pragma once

#include <cstdint>
#include <string_view>

namespace lacuna {

/// Modules that may be recomputed as one region: the module at `path`, or, of the `count` modules of the sequence at
/// `path` (`blocks.0`, `blocks.1` and so on), those from `first` to before `end`.
struct ModuleRange {
  std::string_view path;
  std::int64_t first = 0, end = 1, count = 0;  // count 0: a module by itself
  bool is_sequence() const { return count > 0; }
  bool is_whole() const { return first == 0 && end == count; }
};

}  // namespace lacuna
