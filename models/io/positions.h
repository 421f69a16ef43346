// Tables of positions for another number of patches.
#pragma once

#include "core/tensor.h"

#include <cstdint>

namespace lacuna {

/// The side of a square grid of `patches`; 0: it is none.
std::int64_t square_side(std::int64_t patches);

/// A table [1, leading + n*n, C] of any floating type, as f32 [1, tokens, C]: the first `leading` rows as they are, the
/// others as a grid that is resampled by antialiased bicubic interpolation. timm.layers.resample_abs_pos_embed, that is
/// torch.nn.functional.interpolate(mode='bicubic', antialias=True).
Tensor resample_positions(const Tensor& table, std::int64_t tokens, std::int64_t leading);

}  // namespace lacuna
