// Options of augmentation beside crop and flip.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lacuna {

/// As timm's options of the same meaning; all off unless asked for.
struct AugmentOptions {
  std::string auto_augment{};          // `rand-m9-mstd0.5-inc1`, `3a` …; empty: none
  std::vector<double> color_jitter{};  // of all three, or of brightness, contrast, saturation and hue; empty: none
  double color_jitter_probability = 1;
  bool force_color_jitter = false;  // with auto_augment too
  double grayscale_probability = 0;
  double blur_probability = 0;
  double erase_probability = 0;
  std::string erase_mode = "pixel";  // const, rand or pixel
  std::int64_t erase_count = 1;      // rectangles at most

  bool operator==(const AugmentOptions&) const = default;
};

}  // namespace lacuna
