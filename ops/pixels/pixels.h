// The formulas of one pixel, for the CPU and for kernels.
#pragma once

#include "core/host_device.h"

#include <cstdint>

namespace lacuna {

struct PixelImages {
  const std::uint8_t* x;  // [N, H, W, C]
  const float* scale;     // [N, 2, C]
  const float* mixes;     // [N, 6], or null
  std::int64_t samples, height, width, channels;

  /// Element i of the result of `normalize_pixels`.
  LACUNA_HOST_DEVICE float operator()(std::int64_t i) const {
    const std::int64_t size = height * width * channels, n = i / size, place = i - n * size;
    return at(n, place, place / (width * channels), place / channels % width, place % channels);
  }
  /// Element `place` of image n, which lies there.
  LACUNA_HOST_DEVICE float at(std::int64_t n, std::int64_t place, std::int64_t row, std::int64_t column,
                              std::int64_t channel) const {
    const float own = pixel(n, place, channel);
    if (mixes == nullptr) return own;
    const float* const mix = mixes + 6 * n;
    const float partner = pixel(samples - 1 - n, place, channel);
    const bool in_box = static_cast<float>(row) >= mix[2] && static_cast<float>(row) < mix[3] &&
                        static_cast<float>(column) >= mix[4] && static_cast<float>(column) < mix[5];
    return in_box ? partner : mix[0] * own + mix[1] * partner;
  }

 private:
  LACUNA_HOST_DEVICE float pixel(std::int64_t n, std::int64_t place, std::int64_t channel) const {
    const float* const of_image = scale + n * 2 * channels + channel;
    return static_cast<float>(x[n * height * width * channels + place]) * of_image[0] + of_image[channels];
  }
};

}  // namespace lacuna
