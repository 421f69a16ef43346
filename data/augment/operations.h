// The operations of RandAugment and its relatives by timm's names, with the meaning that timm gives to a magnitude.
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
  std::vector<std::uint8_t> fill{};      // [channels]: the colour beyond the image
  std::optional<ResizeFilter> filter{};  // of shear, translation and rotation; none: drawn for each
  double translation = 0.45;             // share of the image at magnitude 10
};

struct Operation {
  std::string_view name;
  bool draws_sign;  // whether a coin decides which way it goes
  /// Its argument at a magnitude, from 0 to 10 in most policies; `sign` is 1 or −1. Null: it takes none.
  double (*argument)(double magnitude, double sign, const Surroundings& surroundings);
  /// Changes the sample's images.
  void (*apply)(Sample& sample, double argument, const Surroundings& surroundings, SampleRandom& random);
};

/// An unknown name is an error.
const Operation& operation(std::string_view name);

/// Blurs the sample's images (gaussian_blur).
void blur(Sample& sample, double deviation);

}  // namespace lacuna::augment
