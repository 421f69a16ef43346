#include "data/augment/filters.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace lacuna::augment {
namespace {

/// A box filter: 2·radius + 1 taps of weight `inner` and one of `outer` on each side, with 24 fractional bits.
struct Box {
  int radius = 0;
  std::uint32_t inner = 0, outer = 0;
};

constexpr int passes = 3;

/// The box whose variance over all passes equals the Gaussian's: Gwosdek et al., "Theoretical foundations of Gaussian
/// convolution by extended box filtering" (SSVM 2011), equations 7, 11 and 14, computed in Pillow's types.
Box box_of(float deviation) {
  const float variance = deviation * deviation / passes;
  const auto length = static_cast<float>(std::sqrt(12.0 * static_cast<double>(variance) + 1.0));
  const auto whole = static_cast<float>(std::floor((static_cast<double>(length) - 1.0) / 2.0));
  float part = (2 * whole + 1) * (whole * (whole + 1) - 3 * variance);
  part /= 6 * (variance - (whole + 1) * (whole + 1));
  const float radius = whole + part;
  Box box{.radius = static_cast<int>(radius)};
  box.inner = static_cast<std::uint32_t>(static_cast<float>(1 << 24) / (radius * 2 + 1));
  box.outer = ((1U << 24) - static_cast<std::uint32_t>(box.radius * 2 + 1) * box.inner) / 2;
  return box;
}

/// Scratch memory for box sums.
struct Scratch {
  std::vector<std::uint8_t> padded{};       // a row, padded with copies of its first and last pixel
  std::vector<std::uint32_t> sums{};        // sums over the inner taps
  std::vector<const std::uint8_t*> taps{};  // [2·radius + 3]: the values from −radius − 1 to radius + 1 away
};

/// Computes to[i] from taps[...][i].
void box_values(const Box& box, Scratch& scratch, std::int64_t count, std::uint8_t* to) {
  std::uint32_t* const sums = scratch.sums.data();
  std::fill_n(sums, count, 0U);
  for (std::size_t k = 1; k + 1 < scratch.taps.size(); ++k) {
    const std::uint8_t* const tap = scratch.taps[k];
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) sums[i] += tap[i];
  }
  const std::uint8_t *const first = scratch.taps.front(), *const last = scratch.taps.back();
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t ends = std::uint32_t{first[i]} + last[i];
    to[i] = static_cast<std::uint8_t>((sums[i] * box.inner + ends * box.outer + (1U << 23)) >> 24);
  }
}

void blur_row(const Box& box, std::uint8_t* row, std::int64_t width, std::int64_t channels, Scratch& scratch) {
  const std::int64_t margin = (box.radius + 1) * channels, count = width * channels;
  scratch.padded.resize(static_cast<std::size_t>(count + 2 * margin));
  std::uint8_t* const middle = scratch.padded.data() + margin;
  for (std::size_t k = 0; k < scratch.taps.size(); ++k)
    scratch.taps[k] = scratch.padded.data() + static_cast<std::int64_t>(k) * channels;
  for (int pass = 0; pass < passes; ++pass) {
    std::copy_n(row, count, middle);
    for (std::int64_t i = 0; i < margin; ++i) {
      middle[i - margin] = row[i % channels];
      middle[count + i] = row[count - channels + i % channels];
    }
    box_values(box, scratch, count, row);
  }
}

void blur_columns(const Box& box, const ImageView& in, const ImageView& out, Scratch& scratch) {
  for (std::int64_t y = 0; y < in.height; ++y) {
    for (std::int64_t k = 0; k < std::ssize(scratch.taps); ++k)
      scratch.taps[static_cast<std::size_t>(k)] =
          in.row(std::clamp<std::int64_t>(y + k - box.radius - 1, 0, in.height - 1));
    box_values(box, scratch, in.row_bytes(), out.row(y));
  }
}

}  // namespace

void sharpness(const ImageView& in, const ImageView& out, float factor) {
  std::copy_n(in.pixels, in.bytes(), out.pixels);
  const std::int64_t step = in.channels;
  for (std::int64_t y = 1; y + 1 < in.height; ++y) {
    const std::uint8_t *const above = in.row(y - 1), *const row = in.row(y), *const below = in.row(y + 1);
    std::uint8_t* const to = out.row(y);
#pragma omp simd
    for (std::int64_t i = step; i < in.row_bytes() - step; ++i) {
      const int around = above[i - step] + above[i] + above[i + step] + row[i - step] + row[i + step] +
                         below[i - step] + below[i] + below[i + step];
      // Pillow computes (around + 5 · row) / 13 + 0.5 in floats. It is never near an integer, so this result is equal.
      const int smooth = (2 * (around + 5 * row[i]) + 13) / 26;
      to[i] = blend(static_cast<float>(smooth), row[i], factor);
    }
  }
}

void gaussian_blur(const ImageView& image, const ImageView& scratch, float deviation) {
  if (deviation <= 0) return;
  const Box box = box_of(deviation);
  Scratch rows;
  rows.sums.resize(static_cast<std::size_t>(image.row_bytes()));
  rows.taps.resize(static_cast<std::size_t>(2 * box.radius + 3));
  for (std::int64_t y = 0; y < image.height; ++y) blur_row(box, image.row(y), image.width, image.channels, rows);
  static_assert(passes == 3);
  blur_columns(box, image, scratch, rows);
  blur_columns(box, scratch, image, rows);
  blur_columns(box, image, scratch, rows);
  std::copy_n(scratch.pixels, scratch.bytes(), image.pixels);
}

}  // namespace lacuna::augment
