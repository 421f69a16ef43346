// Tables of relative position biases for windows of another size.
#pragma once

#include "core/tensor.h"

#include <cstdint>

namespace lacuna {

/// timm's interpolation of a table f32 [(2·a − 1)², heads] of square windows to [(2·height − 1)(2·width − 1), heads]:
/// bilinear, on an axis whose steps grow geometrically from the middle so that both windows' edges meet. Undefined if
/// `stored` is no table of square windows with `heads` columns.
Tensor resample_bias_table(const Tensor& stored, std::int64_t height, std::int64_t width, std::int64_t heads);

}  // namespace lacuna
