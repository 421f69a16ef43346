// An image on its way from a dataset into a batch.
#pragma once

#include <cstdint>
#include <vector>

namespace lacuna {

/// u8 [height, width, channels] in `pixels`, and room to work in that keeps its capacity from image to image.
struct ImageBuffer {
  std::int64_t height = 0, width = 0, channels = 0;
  std::vector<std::uint8_t> pixels{}, spare{};

  std::int64_t row_bytes() const { return width * channels; }
  void set_size(std::int64_t new_height, std::int64_t new_width, std::int64_t new_channels) {
    height = new_height;
    width = new_width;
    channels = new_channels;
    pixels.resize(static_cast<std::size_t>(height * width * channels));
  }
};

}  // namespace lacuna
