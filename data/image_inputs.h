// Samples from the bytes of single image files, for predictions.
#pragma once

#include "data/transforms.h"

#include <memory>

namespace lacuna {

/// Decodes images and applies `transforms`, which begin with the view of an encoded image and draw nothing.
std::unique_ptr<const InputReader> image_inputs(Transforms transforms);

}  // namespace lacuna
