// Pixels of images as a model reads them.
#pragma once

#include "core/kernel.h"

namespace lacuna {

class Tensor;

/// y = own where `mixes` is undefined; otherwise, with m = mixes[n], partner's in rows [m[2], m[3]) and columns
/// [m[4], m[5]), and m[0] · own + m[1] · partner's elsewhere. own: x[n, h, w, c] · scale[n, 0, c] + scale[n, 1, c];
/// partner's: the same of image N − 1 − n. x: u8 [N, H, W, C]; scale: f32 [N, 2, C]; mixes: f32 [N, 6]; y: [N, H, W, C]
/// of any floating type.
inline constinit Kernel<void(const Tensor& x, const Tensor& scale, const Tensor& mixes, const Tensor& y)>
    normalize_pixels{"normalize pixels"};

}  // namespace lacuna
