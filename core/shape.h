// The extents of a tensor, outermost first.
#pragma once

#include "core/error.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace lacuna {

class Shape {
 public:
  static constexpr int max_rank = 6;

  Shape() = default;  // rank 0: one element
  Shape(std::initializer_list<std::int64_t> extents) : Shape(std::span(extents.begin(), extents.size())) {}
  /// Rejects extents whose product overflows 64 bits.
  explicit Shape(std::span<const std::int64_t> extents);

  int rank() const { return rank_; }
  std::int64_t operator[](int axis) const { return extents_[static_cast<std::size_t>(axis)]; }
  std::int64_t front() const { return rank_ == 0 ? 1 : extents_[0]; }
  std::int64_t back() const { return rank_ == 0 ? 1 : extents_[static_cast<std::size_t>(rank_ - 1)]; }
  const std::int64_t* begin() const { return extents_.data(); }
  const std::int64_t* end() const { return extents_.data() + rank_; }

  /// Number of elements.
  std::int64_t count() const {
    std::int64_t n = 1;
    for (const std::int64_t extent : *this) n *= extent;
    return n;
  }
  /// The number of rows. A row is a run along the last axis (a token, a pixel with its channels).
  std::int64_t rows() const { return back() == 0 ? 0 : count() / back(); }

  /// This shape with the last extent replaced.
  Shape with_back(std::int64_t extent) const;

  bool operator==(const Shape& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

 private:
  void check_count() const;

  int rank_ = 0;
  std::array<std::int64_t, max_rank> extents_{};
};

/// The shape as text, such as `[16, 197, 192]`.
std::string to_string(const Shape& shape);

}  // namespace lacuna

template <>
struct fmt::formatter<lacuna::Shape> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  template <class Context>
  auto format(const lacuna::Shape& shape, Context& context) const {
    const std::string text = lacuna::to_string(shape);
    return std::copy(text.begin(), text.end(), context.out());
  }
};
