// The names of the fields of images and classes, and of the option that lists classes.
#include "data/dataset.h"
#include "data/encoded_images.h"

#include <algorithm>

namespace lacuna {

const SampleField* find_target(const SampleFields& fields) {
  const auto found = std::ranges::find(fields, "labels", &SampleField::name);
  return found == fields.end() ? find_field(fields, FieldKind::mask) : &*found;
}

const Field* find_class_list(const Options& options) { return options.find("labels"); }

SampleField class_field(std::int64_t classes) {
  return {.name = "labels", .kind = FieldKind::label, .dtype = DType::i64, .shape = {}, .below = classes};
}

SampleFields image_fields(std::int64_t height, std::int64_t width, std::int64_t channels) {
  return {{.name = "images", .kind = FieldKind::pixels, .dtype = DType::u8, .shape = {height, width, channels}},
          class_field()};
}

SampleFields encoded_image_fields(SampleField label) {
  constexpr std::int64_t most_bytes = 1 << 30;
  return {{.name = "images",
           .kind = FieldKind::image_file,
           .dtype = DType::u8,
           .shape = {most_bytes},
           .collation = Collation::packed,
           .lengths = "file_offsets"},
          std::move(label)};
}

}  // namespace lacuna
