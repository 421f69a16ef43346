#include "data/encoded_images.h"

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

void EncodedImages::read_sample(std::int64_t index, Sample& sample) const {
  sample.origin = origin(index);
  read_file(index, sample);
}

}  // namespace lacuna
