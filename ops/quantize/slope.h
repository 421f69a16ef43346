// Slopes of curves in 2 bits an element.
#pragma once

#include "core/tensor.h"

#include <array>
#include <cstdint>
#include <string_view>

namespace lacuna::quant {

/// A curve's slope as one of four: between two thresholds it is taken to be that at one place. For a tensor of which
/// backward needs nothing but the slope (few-bit backward: Novikov et al. 2023). The choice is not drawn: what is wrong
/// is wrong in every step.
struct SlopeLevels {
  std::array<float, 3> thresholds;
  std::array<float, 4> places;
};

/// Of the op's curve, the four that err least over standard normal values; null where it has none.
const SlopeLevels* slope_levels(std::string_view op);

/// Two bits an element, four in a byte from the lowest on: how many thresholds it is at or above; NaN counts as below.
/// `values` of any floating type and shape; the result is u8 [ceil(count / 4)] on the same device, purpose saved.
Tensor encode_slopes(const Tensor& values, const SlopeLevels& levels);
/// The places of elements [begin, end), into `out` of as many elements of a floating type.
void decode_slopes(const Tensor& bytes, const SlopeLevels& levels, std::int64_t begin, std::int64_t end,
                   const Tensor& out);

}  // namespace lacuna::quant
