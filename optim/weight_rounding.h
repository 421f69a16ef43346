// How the update of a weight that is stored in bf16 is rounded.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace lacuna {

enum class WeightRounding : std::uint8_t {
  stochastic,  // up or down by chance, so that the mean over many updates is right: no memory
  kahan        // to nearest; what that loses is kept in bf16 and added to the next update
};

constexpr std::array<std::pair<std::string_view, WeightRounding>, 2> names_of(WeightRounding) {
  return {{{"stochastic", WeightRounding::stochastic}, {"kahan", WeightRounding::kahan}}};
}

}  // namespace lacuna
