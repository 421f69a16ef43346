// The field of masks: the class of each pixel.
#pragma once

#include "data/field.h"

#include <cstdint>

namespace lacuna {

/// The value of pixels that count for nothing: those outside of the image, and those that a data set leaves open.
inline constexpr std::int64_t ignored_pixel = 255;
/// The same for more than 255 classes.
inline constexpr std::int64_t ignored_wide_pixel = 65535;

/// `mask`, u8 [height, width], or i64 for more than 255 classes: values below `classes`, and `padding` for pixels that
/// count for nothing.
SampleField mask_field(std::int64_t classes, std::int64_t height, std::int64_t width);

}  // namespace lacuna
