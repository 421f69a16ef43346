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
/// A picture u8 [H, W, 3] as the text of a `data:` address.
std::string picture_address(const Tensor& picture);
/// Image `row` of `images` f32 [N, H, W, 3] as the text of a `data:` address. `mean` and `deviation` are those that it
/// was normalised with, for values from 0 to 1.
std::string picture_address(const Tensor& images, std::int64_t row, const std::vector<double>& mean,
                            const std::vector<double>& deviation);

}  // namespace lacuna::apps
