// A non-owning view of an image's pixels.
#pragma once

#include "core/tensor.h"

#include <cstdint>

namespace lacuna::augment {

/// An image u8 [height, width, channels] with 1 or 3 channels.
struct ImageView {
  std::uint8_t* pixels = nullptr;
  std::int64_t height = 0, width = 0, channels = 0;

  std::int64_t row_bytes() const { return width * channels; }
  std::int64_t bytes() const { return height * row_bytes(); }
  std::uint8_t* row(std::int64_t y) const { return pixels + y * row_bytes(); }
};

inline ImageView view_of(const Tensor& image) {
  return {image.data<std::uint8_t>(), image.shape()[0], image.shape()[1], image.shape()[2]};
}

/// Pillow's Image.blend of two values: from + factor·(to − from), clamped to [0, 255] and truncated.
inline std::uint8_t blend(float from, float to, float factor) {
  const float value = from + factor * (to - from);
  const float positive = value < 0.0F ? 0.0F : value;
  return static_cast<std::uint8_t>(static_cast<int>(positive > 255.0F ? 255.0F : positive));
}

}  // namespace lacuna::augment
