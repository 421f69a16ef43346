#include "core/shape.h"

namespace lacuna {

Shape::Shape(std::span<const std::int64_t> extents) {
  expect(extents.size() <= max_rank, "a shape has at most {} axes, got {}", max_rank, extents.size());
  for (const std::int64_t extent : extents) {
    expect(extent >= 0, "an extent is 0 or more, got {}", extent);
    extents_[static_cast<std::size_t>(rank_++)] = extent;
  }
  check_count();
}

void Shape::check_count() const {
  std::int64_t count = 1;
  for (const std::int64_t extent : *this)
    if (__builtin_mul_overflow(count, std::max<std::int64_t>(extent, 1), &count))
      reject("a tensor of {} has more elements than can be counted: its sizes are too large", *this);
}

Shape Shape::with_back(std::int64_t extent) const {
  expect(rank_ > 0, "a shape without axes has no last extent");
  Shape changed = *this;
  changed.extents_[static_cast<std::size_t>(rank_ - 1)] = extent;
  changed.check_count();
  return changed;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (const std::int64_t extent : shape) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(extent);
  }
  return text + "]";
}

}  // namespace lacuna
