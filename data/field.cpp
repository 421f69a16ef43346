#include "data/field.h"

#include "core/error.h"

#include <algorithm>

namespace lacuna {

std::string_view name_of(FieldKind kind) {
  constexpr std::string_view names[]{"number", "label", "image_file", "pixels", "mask", "boxes", "tokens", "edges"};
  return names[static_cast<std::size_t>(kind)];
}

std::string lengths_of(const SampleField& field) {
  if (field.collation == Collation::stacked) return {};
  if (!field.lengths.empty()) return field.lengths;
  return field.collation == Collation::packed ? "offsets" : "key_lengths";
}

std::string indexes_of(const SampleField& field) {
  if (field.kind != FieldKind::edges) return {};
  return field.indexes.empty() ? "offsets" : field.indexes;
}

const SampleField& field_of(const SampleFields& fields, std::string_view name) {
  const auto found = std::ranges::find(fields, name, &SampleField::name);
  if (found == fields.end()) fail("expected samples with `{}`, got {}", name, to_string(fields));
  return *found;
}

const SampleField* find_field(const SampleFields& fields, FieldKind kind) {
  const auto found = std::ranges::find(fields, kind, &SampleField::kind);
  return found == fields.end() ? nullptr : &*found;
}

const SampleField* find_images(const SampleFields& fields) {
  const SampleField* const pixels = find_field(fields, FieldKind::pixels);
  return pixels != nullptr ? pixels : find_field(fields, FieldKind::image_file);
}

const SampleField* find_class(const SampleFields& fields) {
  const SampleField* const label = find_field(fields, FieldKind::label);
  return label != nullptr && label->dtype == DType::i64 && label->shape.rank() == 0 ? label : nullptr;
}

std::string to_string(const SampleFields& fields) {
  std::string all;
  for (const SampleField& field : fields)
    all += fmt::format("{}`{}` ({})", all.empty() ? "" : ", ", field.name, name_of(field.kind));
  return all.empty() ? "nothing" : all;
}

}  // namespace lacuna
