#include "data/encoded_images.h"

#include <algorithm>
#include <utility>

namespace lacuna {

SampleFields encoded_image_fields(SampleField labels) {
  constexpr std::int64_t most_bytes = 1 << 30;
  return {{.name = "encoded",
           .dtype = DType::u8,
           .shape = {most_bytes},
           .collation = Collation::packed,
           .lengths = "encoded_offsets"},
          std::move(labels)};
}

std::int64_t image_channels(const SampleFields& fields) {
  if (std::ranges::find(fields, "encoded", &SampleField::name) != fields.end()) return 3;
  const auto images = std::ranges::find(fields, "images", &SampleField::name);
  return images == fields.end() ? 0 : images->shape.back();
}

void EncodedImages::read_sample(std::int64_t index, Sample& sample) const {
  sample.origin = origin(index);
  read_file(index, sample);
}

}  // namespace lacuna
