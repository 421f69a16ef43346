// The chain of pixel augmentations that a configuration selects.
#pragma once

#include "data/augment/options.h"
#include "data/transforms.h"

#include <vector>

namespace lacuna::augment {

/// Rejects options that contradict each other or have no effect; the message names their configuration keys.
void check(const AugmentOptions& options);

/// The transforms of u8 images between flip and normalisation: auto_augment, colour jitter, grayscale, blur. `mean`
/// [channels] fills pixels outside the image; `random` interpolation is drawn per operation.
Transforms before_normalization(const AugmentOptions& options, const std::vector<float>& mean,
                                Interpolation interpolation);

/// The transforms of f32 images after normalization: random erasing.
Transforms after_normalization(const AugmentOptions& options);

}  // namespace lacuna::augment
