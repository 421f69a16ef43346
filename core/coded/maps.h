// The values of 4-bit codes, and the map of nested scales.
#pragma once

#include "core/coded/format.h"

#include <array>
#include <string_view>

namespace lacuna {

constexpr std::string_view name_of(WeightCode code) {
  constexpr std::string_view names[] = {"bf16", "int8", "nf4", "fp4", "int4"};
  return names[static_cast<std::size_t>(code)];
}

/// Values of the codes 0 to 15 of a 4-bit format, to be multiplied by the scale.
const std::array<float, 16>& values_of(WeightCode code);

/// Values of the codes 0 to 255 of nested scales, ascending: bitsandbytes' signed dynamic map (Dettmers 2016, 8-bit
/// approximations), 2^i values between 10^(i-7) and 10^(i-6) of both signs for i in 0 to 6, and 0 and 1. To the bit.
const std::array<float, 256>& nested_map();

}  // namespace lacuna
