// Slopes of activation functions in 2 bits per element.
#pragma once

#include "core/tensor.h"

#include <array>
#include <cstdint>
#include <string_view>

namespace lacuna::quant {

/// A piecewise constant approximation of an activation's derivative: between two thresholds it is the derivative at one
/// point. For inputs of which backward needs nothing but the slope (few-bit backward, Novikov et al. 2023). The choice
/// is deterministic, so its error is the same in every step.
struct SlopeLevels {
  std::array<float, 3> thresholds;
  std::array<float, 4> points;
};

/// The levels of least squared error over N(0, 1) for the op's activation; null if there are none.
const SlopeLevels* slope_levels(std::string_view op);

/// Two bits per element, four elements per byte from bit 0 on: the number of thresholds that are not above the element;
/// 0 for NaN. `values` has any floating type and shape. Returns u8 [ceil(count / 4)] on the same device,
/// Purpose::saved.
Tensor quantize_slopes(const Tensor& values, const SlopeLevels& levels);
/// The points of elements [begin, end) into `out` [end - begin], of a floating type.
void dequantize_slopes(const Tensor& bytes, const SlopeLevels& levels, std::int64_t begin, std::int64_t end,
                       const Tensor& out);

}  // namespace lacuna::quant
