// The heads of an attention op's operands.
#pragma once

#include "core/op.h"

namespace lacuna {

/// The heads in `columns`, the last axis of a saved operand, where that of the op's first one has `first`: all heads of
/// an op are of one width, and k and v of grouped heads have fewer than q.
inline std::int64_t operand_heads(const Operation& op, std::int64_t first, std::int64_t columns) {
  const std::int64_t width = first / op.heads();
  return width > 0 && columns % width == 0 ? columns / width : op.heads();
}

}  // namespace lacuna
