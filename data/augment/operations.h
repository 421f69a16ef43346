// The operations of RandAugment and its variants, with timm's names and timm's meaning of magnitudes.
#pragma once

#include "data/augment/pixel_transform.h"
#include "data/resize.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace lacuna::augment {

/// The state that a transform's operations share.
struct Surroundings {
  std::vector<std::uint8_t> fill{};      // [channels]: the colour of pixels outside the image
  std::optional<ResizeFilter> filter{};  // for shear, translation and rotation; none: drawn per operation
  double translation = 0.45;             // translation at magnitude 10, relative to the image
};

struct Operation {
  std::string_view name;
  bool draws_sign;  // whether the direction is random
  /// Maps a magnitude, 0 to 10 in most policies, to the operation's argument; `sign` is 1 or −1. Null: no argument.
  double (*argument)(double magnitude, double sign, const Surroundings& surroundings);
  /// Applies the operation, and returns how pixels moved.
  Geometry (*apply)(SampleImage& image, double argument, const Surroundings& surroundings, SampleRandom& random);
};

/// The operation called `name`; throws if there is none.
const Operation& operation(std::string_view name);

/// Blurs an image (gaussian_blur).
void blur(SampleImage& image, double deviation);

}  // namespace lacuna::augment
