#include "data/encoded_images.h"

namespace lacuna {

std::int64_t image_channels(const SampleFields& fields) {
  const SampleField* const images = find_images(fields);
  if (images == nullptr) return 0;
  return images->kind == FieldKind::image_file ? 3 : images->shape.back();
}

void EncodedImages::read_sample(std::int64_t index, Sample& sample) const {
  sample.origin = origin(index);
  read_file(index, sample);
}

}  // namespace lacuna
