// The height and width of images, as a configuration gives them: 224, or [224, 320].
#pragma once

#include "core/schema.h"

#include <cstdint>
#include <utility>

namespace lacuna {

/// Two whole numbers; one stands for both.
using Sides = std::pair<std::int64_t, std::int64_t>;

/// In pixels.
struct ImageSize {
  std::int64_t height, width;
  ImageSize(std::int64_t side = 224) : ImageSize(side, side) {}  // NOLINT(google-explicit-constructor): a square
  ImageSize(std::int64_t h, std::int64_t w) : height(h), width(w) {}
  bool is_given() const { return height != 0 || width != 0; }
  bool operator==(const ImageSize&) const = default;
};

template <>
const Codec& codec_of<Sides>();
template <>
const Codec& codec_of<ImageSize>();

}  // namespace lacuna
