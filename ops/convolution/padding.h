// Zeros around images that a convolution reads.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>

namespace lacuna {

/// Rows of zeros above and below an image, columns left and right of it.
struct Padding {
  std::int64_t top = 0, left = 0, bottom = 0, right = 0;

  constexpr Padding(std::int64_t all = 0) : top(all), left(all), bottom(all), right(all) {}
  constexpr Padding(std::int64_t above, std::int64_t before, std::int64_t below, std::int64_t behind)
      : top(above), left(before), bottom(below), right(behind) {}

  constexpr bool is_symmetric() const { return top == bottom && left == right; }
  constexpr std::int64_t least() const { return std::min({top, left, bottom, right}); }
  constexpr std::int64_t most() const { return std::max({top, left, bottom, right}); }
  constexpr std::int64_t rows_of(std::int64_t height, std::int64_t kernel, std::int64_t stride) const {
    return (height + top + bottom - kernel) / stride + 1;
  }
  constexpr std::int64_t columns_of(std::int64_t width, std::int64_t kernel, std::int64_t stride) const {
    return (width + left + right - kernel) / stride + 1;
  }
  auto operator<=>(const Padding&) const = default;
};

/// TensorFlow's SAME: ⌈extent / stride⌉ windows along each axis. Of an odd number of zeros, the larger half is below
/// and on the right.
constexpr Padding same_padding(std::int64_t height, std::int64_t width, std::int64_t kernel, std::int64_t stride) {
  const auto zeros = [=](std::int64_t extent) {
    return std::max<std::int64_t>(((extent + stride - 1) / stride - 1) * stride + kernel - extent, 0);
  };
  const std::int64_t down = zeros(height), across = zeros(width);
  return {down / 2, across / 2, down - down / 2, across - across / 2};
}

}  // namespace lacuna
