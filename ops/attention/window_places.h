// Places of tokens in windows, for the CPU and for .cu files.
#pragma once

#include "core/host_device.h"

#include <cstdint>

namespace lacuna {

/// The token at place (y, x) of a rolled and padded map; -1: a pad. `Problem`: WindowArguments or WindowProblem.
template <class Problem>
LACUNA_HOST_DEVICE inline std::int64_t token_of(const Problem& a, std::int64_t y, std::int64_t x) {
  if (!a.pads_first && (y >= a.height || x >= a.width)) return -1;
  const std::int64_t row = (y + a.shift_down) % (a.pads_first ? a.down() * a.window_height : a.height);
  const std::int64_t column = (x + a.shift_right) % (a.pads_first ? a.across() * a.window_width : a.width);
  return row < a.height && column < a.width ? row * a.width + column : -1;
}

}  // namespace lacuna
