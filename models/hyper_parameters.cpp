#include "models/hyper_parameters.h"

#include <algorithm>

namespace lacuna {

const Tree* find_value(const std::vector<HyperParameter>& values, std::string_view key) {
  const auto found = std::ranges::find(values, key, &HyperParameter::key);
  return found == values.end() ? nullptr : &found->value;
}

Fields ImageOptions::fields() {
  return {field("image_size", &ImageOptions::image_size, extent_range, fits_weights,
                "image side in pixels, or [height, width]"),
          field("in_channels", &ImageOptions::in_channels, extent_range, fits_weights, "channels of the images"),
          field("num_classes", &ImageOptions::num_classes, between(1, 1 << 24), fits_weights, "outputs of the head")};
}

}  // namespace lacuna
