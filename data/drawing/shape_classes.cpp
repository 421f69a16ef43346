#include "data/drawing/shape_classes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace lacuna::drawing {
namespace {

constexpr float least_contrast = 0.4F;  // brightness of a shape minus that of the ground, averaged over channels
constexpr float noise = 0.05F;          // standard deviation, for values in [0, 1]

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

template <class Distance>
void paint(Canvas& canvas, const Pose& pose, const Colour& colour) {
  canvas.paint(pose, colour, Distance{});
}

template <class Distance>
void mark(const Canvas& canvas, const Pose& pose, std::uint8_t value, std::uint8_t border, std::uint8_t* mask) {
  canvas.mark(pose, Distance{}, value, border, mask);
}

template <class Distance>
constexpr ShapeClass named(const char* name) {
  return {.name = name, .paint = paint<Distance>, .mark = mark<Distance>};
}

constexpr std::array classes{
    named<Disc>("disc"),     named<Square>("square"), named<Triangle>("triangle"), named<Star>("star"),
    named<Cross>("cross"),   named<Ring>("ring"),     named<Crescent>("crescent"), named<Frame>("frame"),
    named<Corner>("corner"), named<Bar>("bar"),
};

float brightness(const Colour& colour) { return (colour[0] + colour[1] + colour[2]) / 3.0F; }

}  // namespace

std::span<const ShapeClass> shape_classes() { return classes; }

DatasetInfo drawn_shapes(std::string name, const DatasetOptions& options, const DrawnSizes& sizes) {
  const ImageSize& asked = options.image_size;
  const std::int64_t side =
      asked.is_given() ? std::clamp(std::max(asked.height, asked.width), sizes.smallest_side, sizes.largest_side)
                       : sizes.side;
  const std::int64_t own_size = options.split == Split::train ? sizes.train : sizes.validation;
  DatasetInfo info{
      .name = std::move(name),
      .size = options.size() > 0 ? options.size() : own_size,
      .fields = {{.name = "images", .kind = FieldKind::pixels, .dtype = DType::u8, .shape = {side, side, channels}}},
      .mean = {0.31F, 0.31F, 0.31F},
      .deviation = {0.22F, 0.22F, 0.22F}};
  for (const ShapeClass& shape : shape_classes()) info.classes.emplace_back(shape.name);
  return info;
}

Colour paint_ground(Canvas& canvas, Draws& draws) {
  constexpr float brightest = 0.45F, largest_shading = 0.2F;  // per channel; the gradient of one, side to side
  const Colour ground = draws.colour(brightest);
  Colour rise;
  for (float& channel : rise) channel = draws.uniform(-largest_shading, largest_shading);
  canvas.shade(ground, rise, draws.direction());
  return ground;
}

Pose draw_pose(float largest_shift, float smallest_radius, float largest_radius, Draws& draws) {
  constexpr float largest_tilt = 0.2F;  // tangent of half the largest rotation
  return {draws.point(largest_shift), draws.tilt(largest_tilt), draws.uniform(smallest_radius, largest_radius)};
}

Colour brighter_than(const Colour& ground, Draws& draws) {
  for (int attempt = 0; attempt < 32; ++attempt) {
    const Colour colour = draws.colour(1.0F);
    if (brightness(colour) >= brightness(ground) + least_contrast) return colour;
  }
  return {1.0F, 1.0F, 1.0F};
}

void paint_fragments(int count, float smallest, float largest, Canvas& canvas, Draws& draws) {
  for (int i = 0; i < count; ++i) {
    const Pose pose{draws.point(1.0F), draws.direction(), draws.uniform(smallest, largest)};
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

void develop(const Canvas& canvas, std::int64_t side, const Draws& draws, std::uint8_t* image) {
  // Uniform noise, one random byte per value.
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

}  // namespace lacuna::drawing
