// One sample of an image data set as plain values.
#pragma once

#include "data/dataset.h"

#include <cstdint>
#include <vector>

namespace lacuna {

struct LabelledImage {
  std::vector<std::uint8_t> pixels;
  std::int64_t label;
};

inline LabelledImage read_image(const Dataset& dataset, std::int64_t index) {
  Sample sample;
  sample.begin(0);
  dataset.read(index, sample);
  const std::uint8_t* const pixels = sample["images"].data<std::uint8_t>();
  return {{pixels, pixels + sample["images"].count()}, *sample["labels"].data<std::int64_t>()};
}

}  // namespace lacuna
