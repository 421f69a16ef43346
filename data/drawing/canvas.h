// Drawn pictures: random draws of one picture, and a canvas of RGB that paints outlines and marks them in a mask.
#pragma once

#include "core/parallel.h"
#include "core/random.h"
#include "data/dataset.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

namespace lacuna::drawing {

inline constexpr std::int64_t channels = 3;

using Colour = std::array<float, channels>;

struct Point {
  float x, y;
};

inline float length(float x, float y) { return std::sqrt(x * x + y * y); }

/// The sequence of random draws of one image.
class Draws {
 public:
  /// `set`: the site of the data set's draws.
  Draws(std::uint64_t seed, Split split, std::uint32_t set, std::int64_t index)
      : stream_{seed, static_cast<std::uint32_t>(split), set}, next_(static_cast<std::uint64_t>(index) << 24) {}

  float uniform(float low, float high) { return low + (high - low) * stream_.uniform(next_++); }
  int between(int low, int high) { return low + static_cast<int>(stream_.below(next_++, high - low + 1)); }
  Point point(float reach) { return {uniform(-reach, reach), uniform(-reach, reach)}; }
  // Draws a uniform direction without sin, whose last bit differs between libraries.
  Point direction() {
    for (int attempt = 0; attempt < 32; ++attempt) {
      const Point p = point(1.0F);
      const float r = length(p.x, p.y);
      if (r > 0.1F && r <= 1.0F) return {p.x / r, p.y / r};
    }
    return {1.0F, 0.0F};
  }
  /// Draws a direction within 2 atan(`reach`) of the x axis, by the rational parametrization of the circle.
  Point tilt(float reach) {
    const float t = uniform(-reach, reach);
    return {(1.0F - t * t) / (1.0F + t * t), 2.0F * t / (1.0F + t * t)};
  }
  Colour colour(float brightest) { return {uniform(0, brightest), uniform(0, brightest), uniform(0, brightest)}; }
  // Four words from the part of the image's stream reserved for noise.
  std::array<std::uint32_t, 4> words(std::int64_t block) const {
    return stream_.draw((next_ >> 24 << 22) + (1 << 20) + static_cast<std::uint64_t>(block));
  }

 private:
  RandomStream stream_;
  std::uint64_t next_;
};

inline constexpr float farthest = 1.25F;  // upper bound of all outlines' distance from their origin

/// A place in the image, which spans [-1, 1].
struct Pose {
  Point centre, turn;  // turn: unit vector of the shape's x axis
  float radius;
};

class Canvas {
 public:
  explicit Canvas(std::int64_t side) : side_(side), pixels_(static_cast<std::size_t>(channels * side * side)) {}

  /// Fills the image with `base` plus a linear gradient of `rise` along `direction`, 0 at the centre.
  void shade(const Colour& base, const Colour& rise, Point direction) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const float level = base[static_cast<std::size_t>(c)], slope = rise[static_cast<std::size_t>(c)];
      for (std::int64_t row = 0; row < side_; ++row) {
        float* const line = line_of(c, row);
        const float start = level + slope * direction.y * coordinate(row);
#pragma omp simd
        for (std::int64_t column = 0; column < side_; ++column)
          line[column] = start + slope * direction.x * coordinate(column);
      }
    }
  }

  /// Adds stripes across `direction`: a triangle wave of `period` between -`height` and `height` of each channel.
  void stripe(const Colour& height, float period, Point direction) {
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t row = 0; row < side_; ++row) {
        float* const line = line_of(c, row);
        for (std::int64_t column = 0; column < side_; ++column) {
          const float turns = (direction.x * coordinate(column) + direction.y * coordinate(row)) / period;
          const float wave = 4.0F * std::abs(turns - std::floor(turns) - 0.5F) - 1.0F;
          line[column] += height[static_cast<std::size_t>(c)] * wave;
        }
      }
  }

  /// Paints the inside of an outline, antialiased.
  template <class Distance>
  void paint(const Pose& pose, const Colour& colour, const Distance& distance) {
    const float pixels_a_unit = 0.5F * static_cast<float>(side_);
    const float reach = farthest * pose.radius + 1.0F / pixels_a_unit;
    const Range rows = covered(pose.centre.y, reach), columns = covered(pose.centre.x, reach);
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      float* const red = line_of(0, row);
      float* const green = line_of(1, row);
      float* const blue = line_of(2, row);
#pragma omp simd
      for (std::int64_t column = columns.begin; column < columns.end; ++column) {
        const Point from = within(pose, row, column);
        const float inside = 0.5F - distance(from.x, from.y) * pose.radius * pixels_a_unit;
        const float cover = std::min(std::max(inside, 0.0F), 1.0F);
        red[column] += cover * (colour[0] - red[column]);
        green[column] += cover * (colour[1] - green[column]);
        blue[column] += cover * (colour[2] - blue[column]);
      }
    }
  }

  /// Marks the inside of an outline in `mask`, u8 [side, side], by `value`, and pixels that it only partly covers by
  /// `border`.
  template <class Distance>
  void mark(const Pose& pose, const Distance& distance, std::uint8_t value, std::uint8_t border,
            std::uint8_t* mask) const {
    const float pixels_a_unit = 0.5F * static_cast<float>(side_);
    const float reach = farthest * pose.radius + 1.0F / pixels_a_unit;
    const Range rows = covered(pose.centre.y, reach), columns = covered(pose.centre.x, reach);
    for (std::int64_t row = rows.begin; row < rows.end; ++row)
      for (std::int64_t column = columns.begin; column < columns.end; ++column) {
        const Point from = within(pose, row, column);
        const float outside = distance(from.x, from.y) * pose.radius * pixels_a_unit;
        if (outside < 0.5F) mask[row * side_ + column] = outside > -0.5F ? border : value;
      }
  }

  const float* pixels() const { return pixels_.data(); }

 private:
  // The coordinate of the centre of pixel `position`.
  float coordinate(std::int64_t position) const {
    return static_cast<float>(2 * static_cast<std::int32_t>(position) + 1) / static_cast<float>(side_) - 1.0F;
  }
  // The centre of a pixel in the shape's own coordinates.
  Point within(const Pose& pose, std::int64_t row, std::int64_t column) const {
    const float dx = coordinate(column) - pose.centre.x, dy = coordinate(row) - pose.centre.y;
    return {(pose.turn.x * dx + pose.turn.y * dy) / pose.radius, (pose.turn.x * dy - pose.turn.y * dx) / pose.radius};
  }
  // The range of pixels within `reach` of `centre`.
  Range covered(float centre, float reach) const {
    const float half = 0.5F * static_cast<float>(side_);
    const auto begin = static_cast<std::int64_t>((centre - reach + 1.0F) * half);
    const auto end = static_cast<std::int64_t>((centre + reach + 1.0F) * half) + 1;
    return {std::clamp<std::int64_t>(begin, 0, side_), std::clamp<std::int64_t>(end, 0, side_)};
  }
  float* line_of(std::int64_t channel, std::int64_t row) { return pixels_.data() + (channel * side_ + row) * side_; }

  std::int64_t side_;
  std::vector<float> pixels_;  // [channels, side, side]
};

}  // namespace lacuna::drawing
