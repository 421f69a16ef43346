#include "data/sets/shapes.h"

#include "core/error.h"
#include "core/parallel.h"
#include "core/random.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

namespace lacuna {
namespace {

// The constants below set the difficulty. Lengths are in half image sides: the image spans [-1, 1].
constexpr float smallest_radius = 0.45F, largest_radius = 0.75F;
constexpr float largest_shift = 0.35F;     // offset of the shape's centre along each axis
constexpr float brightest_ground = 0.45F;  // per channel
constexpr float largest_tilt = 0.2F;       // tangent of half the largest rotation, 23 degrees
constexpr float least_contrast = 0.4F;   // brightness of the shape minus that of the background, averaged over channels
constexpr float largest_shading = 0.2F;  // brightness gradient of a background channel, side to side
constexpr int fewest_fragments = 1, most_fragments = 4;
constexpr float smallest_fragment = 0.08F, largest_fragment = 0.18F;
constexpr float noise = 0.05F;  // standard deviation, for values in [0, 1]

constexpr std::int64_t default_train_size = 50000, default_validation_size = 5000, default_side = 32;
constexpr std::int64_t channels = 3;

using Colour = std::array<float, channels>;

struct Point {
  float x, y;
};

float length(float x, float y) { return std::sqrt(x * x + y * y); }

// Signed distances to outlines of about unit size, negative inside.
struct Disc {
  float operator()(float x, float y) const { return length(x, y) - 0.85F; }
};

struct Ring {
  float operator()(float x, float y) const { return std::abs(length(x, y) - 0.7F) - 0.2F; }
};

float box(float x, float y, float half_width, float half_height) {
  return std::max(std::abs(x) - half_width, std::abs(y) - half_height);
}

struct Square {
  float operator()(float x, float y) const { return box(x, y, 0.75F, 0.75F); }
};

struct Frame {
  float operator()(float x, float y) const { return std::max(box(x, y, 0.8F, 0.8F), -box(x, y, 0.42F, 0.42F)); }
};

struct Bar {
  float operator()(float x, float y) const { return box(x, y, 1.0F, 0.3F); }
};

struct Cross {
  float operator()(float x, float y) const { return std::min(box(x, y, 0.95F, 0.3F), box(x, y, 0.3F, 0.95F)); }
};

struct Corner {
  float operator()(float x, float y) const {
    return std::min(box(x + 0.5F, y, 0.3F, 0.8F), box(x, y + 0.5F, 0.8F, 0.3F));
  }
};

struct Triangle {
  float operator()(float x, float y) const { return std::max(-y, 0.8660254F * std::abs(x) + 0.5F * y) - 0.5F; }
};

// A star is the set of points inside at least four of a pentagon's five half planes.
struct Star {
  float operator()(float x, float y) const {
    constexpr std::array<Point, 5> normals{{{0.0F, 1.0F},
                                            {0.95105652F, 0.30901699F},
                                            {0.58778525F, -0.80901699F},
                                            {-0.58778525F, -0.80901699F},
                                            {-0.95105652F, 0.30901699F}}};
    float largest = -10.0F, second = -10.0F;
    for (const Point& normal : normals) {
      const float distance = normal.x * x + normal.y * y;
      second = std::max(second, std::min(largest, distance));
      largest = std::max(largest, distance);
    }
    return second - 0.38F;
  }
};

struct Crescent {
  float operator()(float x, float y) const { return std::max(length(x, y) - 0.9F, 0.75F - length(x - 0.5F, y)); }
};

// The sequence of random draws of one image.
class Draws {
 public:
  Draws(std::uint64_t seed, Split split, std::int64_t index)
      : stream_{seed, static_cast<std::uint32_t>(split), random_site("data/shapes")},
        next_(static_cast<std::uint64_t>(index) << 24) {}

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
  // Draws a direction within 2 atan(`reach`) of the x axis, by the rational parametrization of the circle.
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

constexpr float farthest = 1.25F;  // upper bound of all outlines' distance from their origin

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

  /// Paints the inside of an outline, antialiased.
  template <class Distance>
  void paint(const Pose& pose, const Colour& colour, const Distance& distance) {
    const float pixels_a_unit = 0.5F * static_cast<float>(side_);
    const float reach = farthest * pose.radius + 1.0F / pixels_a_unit;
    const Range rows = covered(pose.centre.y, reach), columns = covered(pose.centre.x, reach);
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const float dy = coordinate(row) - pose.centre.y;
      float* const red = line_of(0, row);
      float* const green = line_of(1, row);
      float* const blue = line_of(2, row);
#pragma omp simd
      for (std::int64_t column = columns.begin; column < columns.end; ++column) {
        const float dx = coordinate(column) - pose.centre.x;
        const float x = (pose.turn.x * dx + pose.turn.y * dy) / pose.radius;
        const float y = (pose.turn.x * dy - pose.turn.y * dx) / pose.radius;
        const float inside = 0.5F - distance(x, y) * pose.radius * pixels_a_unit;
        const float cover = std::min(std::max(inside, 0.0F), 1.0F);
        red[column] += cover * (colour[0] - red[column]);
        green[column] += cover * (colour[1] - green[column]);
        blue[column] += cover * (colour[2] - blue[column]);
      }
    }
  }

  const float* pixels() const { return pixels_.data(); }

 private:
  // The coordinate of the centre of pixel `position`.
  float coordinate(std::int64_t position) const {
    return static_cast<float>(2 * static_cast<std::int32_t>(position) + 1) / static_cast<float>(side_) - 1.0F;
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

template <class Distance>
void paint(Canvas& canvas, const Pose& pose, const Colour& colour) {
  canvas.paint(pose, colour, Distance{});
}

struct ShapeClass {
  const char* name;
  void (*paint)(Canvas& canvas, const Pose& pose, const Colour& colour);
};

constexpr std::array shape_classes{
    ShapeClass{"disc", paint<Disc>},         ShapeClass{"square", paint<Square>},
    ShapeClass{"triangle", paint<Triangle>}, ShapeClass{"star", paint<Star>},
    ShapeClass{"cross", paint<Cross>},       ShapeClass{"ring", paint<Ring>},
    ShapeClass{"crescent", paint<Crescent>}, ShapeClass{"frame", paint<Frame>},
    ShapeClass{"corner", paint<Corner>},     ShapeClass{"bar", paint<Bar>},
};

float brightness(const Colour& colour) { return (colour[0] + colour[1] + colour[2]) / 3.0F; }

Colour brighter_than(const Colour& ground, Draws& draws) {
  for (int attempt = 0; attempt < 32; ++attempt) {
    const Colour colour = draws.colour(1.0F);
    if (brightness(colour) >= brightness(ground) + least_contrast) return colour;
  }
  return {1.0F, 1.0F, 1.0F};
}

void paint_fragments(int count, Canvas& canvas, Draws& draws) {
  for (int i = 0; i < count; ++i) {
    const Pose pose{draws.point(1.0F), draws.direction(), draws.uniform(smallest_fragment, largest_fragment)};
    const Colour colour = draws.colour(1.0F);
    switch (draws.between(0, 2)) {
      case 0:
        canvas.paint(pose, colour, Disc{});
        break;
      case 1:
        canvas.paint(pose, colour, Bar{});
        break;
      default:
        canvas.paint(pose, colour, Triangle{});
        break;
    }
  }
}

// Adds uniform noise, one random byte per value, and rounds.
void develop(const Canvas& canvas, std::int64_t side, const Draws& draws, std::uint8_t* image) {
  constexpr float byte_deviation = 73.9F;  // standard deviation of a uniform integer in [0, 255]
  constexpr float scale = 255.0F * noise / byte_deviation;
  constexpr std::int64_t values_a_block = 16;
  const std::int64_t plane = side * side, blocks = (plane + values_a_block - 1) / values_a_block;
  for (std::int64_t c = 0; c < channels; ++c) {
    const float* const values = canvas.pixels() + c * plane;
    for (std::int64_t block = 0; block < blocks; ++block) {
      const auto grain = std::bit_cast<std::array<std::uint8_t, values_a_block>>(draws.words(c * blocks + block));
      const std::int64_t begin = block * values_a_block, end = std::min(begin + values_a_block, plane);
      for (std::int64_t i = begin; i < end; ++i) {
        const float deviate = static_cast<float>(grain[static_cast<std::size_t>(i - begin)]) - 127.5F;
        const float noisy = values[i] * 255.0F + deviate * scale;
        image[i * channels + c] = static_cast<std::uint8_t>(std::clamp(noisy + 0.5F, 0.0F, 255.0F));
      }
    }
  }
}

DatasetInfo describe(const DatasetOptions& options) {
  // Other sizes are rendered at the nearest of these and resized like any image.
  constexpr std::int64_t smallest_side = 8, largest_side = 1024;
  const std::int64_t side =
      options.image_size.is_given()
          ? std::clamp(std::max(options.image_size.height, options.image_size.width), smallest_side, largest_side)
          : default_side;
  const std::int64_t own_size = options.split == Split::train ? default_train_size : default_validation_size;
  DatasetInfo info{.name = "shapes",
                   .size = options.size() > 0 ? options.size() : own_size,
                   .fields = image_fields(side, side, channels),
                   .classes = {},
                   .mean = {0.31F, 0.31F, 0.31F},
                   .deviation = {0.233F, 0.233F, 0.233F}};
  for (const ShapeClass& shape : shape_classes) info.classes.emplace_back(shape.name);
  return info;
}

const RegisterDataset register_shapes("shapes",
                                      {.describe = describe,
                                       .open = [](const DatasetOptions& options) -> std::unique_ptr<const Dataset> {
                                         return std::make_unique<Shapes>(options);
                                       },
                                       .reads_files = false});

}  // namespace

Shapes::Shapes(const DatasetOptions& options)
    : ImageDataset(describe(options)), seed_(options.seed), split_(options.split) {}

std::int64_t Shapes::label(std::int64_t index) const { return index % std::ssize(shape_classes); }

std::int64_t Shapes::read_image(std::int64_t index, std::uint8_t* image) const {
  expect(0 <= index && index < size(), "{} has no image {}: it holds {}", info().name, index, size());
  const auto label = static_cast<std::size_t>(Shapes::label(index));
  Draws draws(seed_, split_, index);
  const std::int64_t side = field_of(info().fields, "images").shape[0];
  Canvas canvas(side);

  const Colour ground = draws.colour(brightest_ground);
  Colour rise;
  for (float& channel : rise) channel = draws.uniform(-largest_shading, largest_shading);
  canvas.shade(ground, rise, draws.direction());
  const int fragments = draws.between(fewest_fragments, most_fragments);
  paint_fragments(fragments - fragments / 2, canvas, draws);
  const Pose pose{draws.point(largest_shift), draws.tilt(largest_tilt), draws.uniform(smallest_radius, largest_radius)};
  shape_classes[label].paint(canvas, pose, brighter_than(ground, draws));
  paint_fragments(fragments / 2, canvas, draws);
  develop(canvas, side, draws, image);
  return static_cast<std::int64_t>(label);
}

}  // namespace lacuna
