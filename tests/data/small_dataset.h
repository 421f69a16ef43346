// A data set whose images and labels follow from their index, and which can be told to fail.
#pragma once

#include "core/error.h"
#include "data/pipeline.h"

#include <cstdint>

namespace lacuna {

class SmallDataset : public ImageDataset {
 public:
  explicit SmallDataset(std::int64_t size, std::int64_t fails_at = -1)
      : ImageDataset({.name = "small",
                      .size = size,
                      .fields = image_fields(4, 6, 3),
                      .classes = {"even", "odd"},
                      .mean = {0.0F, 0.0F, 0.0F},
                      .deviation = {1.0F, 1.0F, 1.0F}}),
        fails_at_(fails_at) {}

  std::int64_t read_image(std::int64_t index, std::uint8_t* image) const override {
    if (index == fails_at_) fail("image {} is damaged", index);
    for (std::int64_t i = 0; i < image_bytes(); ++i) image[i] = static_cast<std::uint8_t>(index * 31 + i);
    return index;
  }

 private:
  std::int64_t fails_at_;
};

}  // namespace lacuna
