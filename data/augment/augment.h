// The chain of pixel operations that a configuration asks for.
#pragma once

#include "data/augment/options.h"
#include "data/transforms.h"

#include <vector>

namespace lacuna::augment {

/// Refuses options that contradict each other or have no effect; what they are called in a configuration stands in the
/// message.
void check(const AugmentOptions& options);

/// The transforms of u8 images between the flip and normalisation: auto_augment, colour jitter, grey, blur. `mean`
/// [channels] is the colour beyond the image; `random` interpolation is drawn for each operation.
Transforms before_normalization(const AugmentOptions& options, const std::vector<float>& mean,
                                Interpolation interpolation);

/// The transforms of f32 images after normalization: random erasing.
Transforms after_normalization(const AugmentOptions& options);

}  // namespace lacuna::augment
