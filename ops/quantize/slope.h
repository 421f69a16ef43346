// Slopes of activation functions in 2 bits per element.
#pragma once

#include "core/tensor.h"

#include <array>
#include <cstdint>

namespace lacuna::quant {

/// A piecewise constant approximation of an activation's derivative: between two thresholds it is the derivative at one
/// point. For inputs of which backward needs nothing but the slope (few-bit backward, Novikov et al. 2023). The choice
/// is deterministic, so its error is the same in every step.
struct SlopeLevels {
  std::array<float, 3> thresholds;
  std::array<float, 4> points;
};

// Lloyd-Max levels of least squared error over N(0, 1), checked by a test: the slopes at the points on both sides of a
// threshold have equal error there, and the slope at a point is the mean slope between its thresholds.
inline constexpr SlopeLevels gelu_slopes{{-0.499F, 0, 0.499F}, {-0.8724F, -0.2393F, 0.2393F, 0.8724F}};
inline constexpr SlopeLevels silu_slopes{{-0.6685F, 0, 0.6685F}, {-1.1378F, -0.3161F, 0.3161F, 1.1378F}};

/// Two bits per element, four elements per byte from bit 0 on: the number of thresholds that are not above the element;
/// 0 for NaN. `values` has any floating type and shape. Returns u8 [ceil(count / 4)] on the same device,
/// Purpose::saved.
Tensor quantize_slopes(const Tensor& values, const SlopeLevels& levels);
/// The points of elements [begin, end) into `out` [end - begin], of a floating type.
void dequantize_slopes(const Tensor& bytes, const SlopeLevels& levels, std::int64_t begin, std::int64_t end,
                       const Tensor& out);

}  // namespace lacuna::quant
