#include "data/sets/shapes.h"

#include "core/error.h"
#include "data/drawing/shape_classes.h"

#include <algorithm>

namespace lacuna {

using namespace drawing;

namespace {

// The constants below set the difficulty. Lengths are in half image sides: the image spans [-1, 1].
constexpr float smallest_radius = 0.45F, largest_radius = 0.75F;
constexpr float largest_shift = 0.35F;     // offset of the shape's centre along each axis
constexpr float brightest_ground = 0.45F;  // per channel
constexpr float largest_tilt = 0.2F;       // tangent of half the largest rotation, 23 degrees
constexpr float largest_shading = 0.2F;    // brightness gradient of a background channel, side to side
constexpr int fewest_fragments = 1, most_fragments = 4;
constexpr float smallest_fragment = 0.08F, largest_fragment = 0.18F;

constexpr std::int64_t default_train_size = 50000, default_validation_size = 5000, default_side = 32;

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
  for (const ShapeClass& shape : shape_classes()) info.classes.emplace_back(shape.name);
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

std::int64_t Shapes::label(std::int64_t index) const { return index % std::ssize(shape_classes()); }

std::int64_t Shapes::read_image(std::int64_t index, std::uint8_t* image) const {
  expect(0 <= index && index < size(), "{} has no image {}: it holds {}", info().name, index, size());
  const auto label = static_cast<std::size_t>(Shapes::label(index));
  Draws draws(seed_, split_, random_site("data/shapes"), index);
  const std::int64_t side = field_of(info().fields, "images").shape[0];
  Canvas canvas(side);

  const Colour ground = draws.colour(brightest_ground);
  Colour rise;
  for (float& channel : rise) channel = draws.uniform(-largest_shading, largest_shading);
  canvas.shade(ground, rise, draws.direction());
  const int fragments = draws.between(fewest_fragments, most_fragments);
  paint_fragments(fragments - fragments / 2, smallest_fragment, largest_fragment, canvas, draws);
  const Pose pose{draws.point(largest_shift), draws.tilt(largest_tilt), draws.uniform(smallest_radius, largest_radius)};
  shape_classes()[label].paint(canvas, pose, brighter_than(ground, draws));
  paint_fragments(fragments / 2, smallest_fragment, largest_fragment, canvas, draws);
  develop(canvas, side, draws, image);
  return static_cast<std::int64_t>(label);
}

}  // namespace lacuna
