// Images of a batch as a browser shows them.
#pragma once

#include "core/tensor.h"

#include <cstdint>
#include <string>
#include <vector>

namespace lacuna::apps {

/// Image `row` of normalised `images` f32 [N, H, W, 3 or 1] as u8 [H, W, 3]. `mean` and `deviation`: of each channel.
Tensor picture_of(const Tensor& images, std::int64_t row, const std::vector<double>& mean,
                  const std::vector<double>& deviation);
/// A smaller picture u8 [H / by, W / by, 3], whose pixels are means of `by` x `by`.
struct Reduced {
  Tensor picture;
  std::int64_t by = 1;
};
/// A picture u8 [H, W, 3] whose longer side has 320 pixels at most, for pages with many.
Reduced reduced(const Tensor& picture);
/// A picture u8 [H, W, 3] as the text of a `data:` address, in PNG.
std::string picture_address(const Tensor& picture);

}  // namespace lacuna::apps
