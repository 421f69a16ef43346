// Random erasing (Zhong et al., "Random erasing data augmentation", 2017) as in timm.
#pragma once

#include "data/transforms.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace lacuna::augment {

enum class Erasing : std::uint8_t {
  constant,  // 0, the mean of normalised images
  color,     // one standard normal number per channel
  noise      // one standard normal number per value
};
/// Parses `const`, `rand` or `pixel`; any other name gives nothing.
std::optional<Erasing> erasing_of(std::string_view name);

/// With a probability, overwrites 1 to `most` rectangles of normalised images f32 [H, W, C]. With n rectangles, each
/// covers 1/50 to 1/3 of the image, divided by n, with an aspect ratio (height / width) of 0.3 to 1/0.3. A rectangle
/// whose draw does not fit ten times is skipped.
class RandomErasing final : public Transform {
 public:
  RandomErasing(double probability, Erasing how, std::int64_t most);
  SampleField describe(SampleField image) const override;
  Geometry apply(SampleImage& image, SampleRandom& random) const override;

 private:
  double probability_;
  Erasing how_;
  std::int64_t most_;
};

}  // namespace lacuna::augment
