// Rectangles that are overwritten: Zhong et al., "Random erasing data augmentation" (2017), as timm does it.
#pragma once

#include "data/transforms.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace lacuna::augment {

enum class Erasing : std::uint8_t {
  constant,  // 0, which is the mean of normalised images
  color,     // a standard normal number for each channel
  noise      // one for each value
};
/// `const`, `rand` or `pixel`; another name gives nothing.
std::optional<Erasing> erasing_of(std::string_view name);

/// Overwrites 1 to `most` rectangles of `images` f32 [H, W, C], normalised, with a probability. Each takes 1/50 to 1/3
/// of the image over their number, and is 0.3 to 1/0.3 as high as wide; one that does not fit ten times is left out.
class RandomErasing final : public Transform {
 public:
  RandomErasing(double probability, Erasing how, std::int64_t most);
  SampleFields describe(SampleFields fields) const override;
  void apply(Sample& sample, SampleRandom& random) const override;

 private:
  double probability_;
  Erasing how_;
  std::int64_t most_;
};

}  // namespace lacuna::augment
