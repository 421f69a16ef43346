#include "data/encoded_images.h"

#include "data/images/image_reader.h"

#include <algorithm>
#include <span>
#include <string_view>

namespace lacuna {

std::int64_t image_channels(const SampleFields& fields) {
  const SampleField* const images = find_images(fields);
  if (images == nullptr) return 0;
  return images->kind == FieldKind::image_file ? 3 : images->shape.back();
}

DecoderNeed decoder_need(const Dataset& dataset, bool apply_exif, std::int64_t most) {
  DecoderNeed need;
  if (find_field(dataset.info().fields, FieldKind::image_file) == nullptr) return need;
  const std::string name = find_images(dataset.info().fields)->name;
  const std::int64_t count = std::min(most, dataset.size());
  Sample sample;
  for (std::int64_t i = 0; i < count; ++i) try {
      sample.begin(0);
      dataset.read(i * dataset.size() / count, sample);
      const Tensor& file = sample[name];
      need.file = std::max(need.file, file.count());
      const auto bytes = std::span(file.data<const std::uint8_t>(), static_cast<std::size_t>(file.count()));
      need.held = std::max(need.held, open_image(bytes, {.apply_exif = apply_exif})->held_bytes());
    } catch (const DamagedSample&) {  // is met and told where it is read
    }
  return need;
}

void EncodedImages::read_sample(std::int64_t index, Sample& sample) const {
  sample.origin = origin(index);
  try {
    read_file(index, sample);
  } catch (const Error& error) {  // a file that has vanished is as good as a damaged one
    if (error.fault() != Fault::input) throw;
    std::string_view why = error.what();
    if (why.starts_with(sample.origin + ": ")) why.remove_prefix(sample.origin.size() + 2);
    throw DamagedSample(std::string(why));
  }
}

}  // namespace lacuna
