// Augmentation options other than crop and flip.
#pragma once

#include "core/schema.h"

#include <cstdint>
#include <string>
#include <vector>

namespace lacuna {

/// Options as in timm; all are off by default.
struct AugmentOptions {
  std::string auto_augment{};          // `rand-m9-mstd0.5-inc1`, `3a` …; empty: none
  std::vector<double> color_jitter{};  // one strength for all but hue, or three or four (ColorJitter); empty: none
  double color_jitter_probability = 1;
  bool force_color_jitter = false;  // also with auto_augment
  bool photometric = false;         // PhotometricDistortion
  double grayscale_probability = 0;
  double blur_probability = 0;
  double erase_probability = 0;
  std::string erase_mode = "pixel";  // const, rand or pixel
  std::int64_t erase_count = 1;      // maximum number of rectangles

  static Fields fields();
  bool operator==(const AugmentOptions&) const = default;
};

}  // namespace lacuna
