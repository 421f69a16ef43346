// Learnt tables over a grid of places, for a grid of another size.
#pragma once

#include "core/tensor.h"
#include "data/image_size.h"

#include <cstdint>

namespace lacuna {

/// How positions are resampled.
enum class Cubic : std::uint8_t {
  antialiased,  // timm's resample_abs_pos_embed: a = −1/2, wider where the grid shrinks
  plain         // transformers' interpolate_pos_encoding, DeiT's own code: a = −3/4, four taps, edges repeated
};

/// The side of a square grid of `patches`; 0: it is none.
std::int64_t square_side(std::int64_t patches);

/// A table [1, leading + n*n, C] of any floating type, as f32 [1, leading + grid, C]: the first `leading` rows as they
/// are, the others as a grid that is resampled by bicubic interpolation, torch.nn.functional.interpolate(
/// mode='bicubic', antialias=…).
Tensor resample_positions(const Tensor& table, const ImageSize& grid, std::int64_t leading,
                          Cubic how = Cubic::antialiased);

/// timm's interpolation of a table of relative position biases f32 [(2·a − 1)², heads] of square windows to
/// [(2·height − 1)(2·width − 1), heads]: bilinear, on an axis whose steps grow geometrically from the middle so that
/// both windows' edges meet. Undefined if `stored` is no table of square windows with `heads` columns.
Tensor resample_bias_table(const Tensor& stored, std::int64_t height, std::int64_t width, std::int64_t heads);

}  // namespace lacuna
