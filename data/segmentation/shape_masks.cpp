// The built-in data set of masks: drawn images of several shapes and the class of each pixel, generated from a seed as
// they are read. Sample `index` is a function of (seed, split, index, image size), identical on every machine.
#include "core/random.h"
#include "data/dataset.h"
#include "data/drawing/shape_classes.h"
#include "data/segmentation/mask.h"

#include <algorithm>

namespace lacuna {
namespace {

using namespace drawing;

// The constants below set the difficulty. Lengths are in half image sides: the image spans [-1, 1].
constexpr int fewest_shapes = 1, most_shapes = 3;
constexpr float smallest_radius = 0.3F, largest_radius = 0.6F;
constexpr float largest_shift = 0.75F;     // offset of a shape's centre along each axis
constexpr float brightest_ground = 0.45F;  // per channel
constexpr float largest_tilt = 0.2F;       // tangent of half the largest rotation, 23 degrees
constexpr float largest_shading = 0.2F;    // brightness gradient of a background channel, side to side
constexpr float highest_stripes = 0.12F, shortest_period = 0.1F, longest_period = 0.5F;
constexpr int fewest_fragments = 2, most_fragments = 6;
constexpr float smallest_fragment = 0.04F, largest_fragment = 0.1F;

constexpr std::int64_t default_train_size = 20000, default_validation_size = 1000, default_side = 64;
constexpr std::int64_t smallest_side = 16, largest_side = 1024;

DatasetInfo describe(const DatasetOptions& options) {
  const std::int64_t side =
      options.image_size.is_given()
          ? std::clamp(std::max(options.image_size.height, options.image_size.width), smallest_side, largest_side)
          : default_side;
  const std::int64_t own_size = options.split == Split::train ? default_train_size : default_validation_size;
  DatasetInfo info{.name = "shape_masks",
                   .size = options.size() > 0 ? options.size() : own_size,
                   .classes = {"background"},
                   .mean = {0.31F, 0.31F, 0.31F},
                   .deviation = {0.22F, 0.22F, 0.22F}};
  for (const ShapeClass& shape : shape_classes()) info.classes.emplace_back(shape.name);
  info.fields = {{.name = "images", .kind = FieldKind::pixels, .dtype = DType::u8, .shape = {side, side, channels}},
                 mask_field(std::ssize(info.classes), side, side)};
  return info;
}

class ShapeMasks final : public Dataset {
 public:
  explicit ShapeMasks(const DatasetOptions& options)
      : Dataset(describe(options)), seed_(options.seed), split_(options.split) {}

 private:
  void read_sample(std::int64_t index, Sample& sample) const override {
    const SampleField &pixels = *find_images(info().fields), &classes = *find_field(info().fields, FieldKind::mask);
    Tensor image = sample.make(pixels.name, pixels.shape, DType::u8);
    Tensor mask = sample.make(classes.name, classes.shape, DType::u8);  // [side, side]
    draw(index, pixels.shape[0], image.data<std::uint8_t>(), mask.data<std::uint8_t>());
    sample.set(pixels.name, std::move(image));
    sample.set(classes.name, std::move(mask));
  }

  void draw(std::int64_t index, std::int64_t side, std::uint8_t* image, std::uint8_t* mask) const {
    Draws draws(seed_, split_, random_site("data/shape_masks"), index);
    Canvas canvas(side);
    const Colour ground = draws.colour(brightest_ground);
    Colour rise;
    for (float& channel : rise) channel = draws.uniform(-largest_shading, largest_shading);
    canvas.shade(ground, rise, draws.direction());
    const Colour height = draws.colour(highest_stripes);
    const float period = draws.uniform(shortest_period, longest_period);
    canvas.stripe(height, period, draws.direction());
    const int fragments = draws.between(fewest_fragments, most_fragments);
    paint_fragments(fragments, smallest_fragment, largest_fragment, canvas, draws);
    std::fill_n(mask, side * side, std::uint8_t{0});
    const int shapes = draws.between(fewest_shapes, most_shapes);
    for (int i = 0; i < shapes; ++i) {
      const int last = static_cast<int>(std::ssize(shape_classes())) - 1;
      const int shape = i == 0 ? static_cast<int>(index % (last + 1)) : draws.between(0, last);
      const Point centre = draws.point(largest_shift), turn = draws.tilt(largest_tilt);
      const Pose pose{centre, turn, draws.uniform(smallest_radius, largest_radius)};
      const ShapeClass& kind = shape_classes()[static_cast<std::size_t>(shape)];
      kind.paint(canvas, pose, brighter_than(ground, draws));
      kind.mark(canvas, pose, static_cast<std::uint8_t>(shape + 1), ignored_pixel, mask);
    }
    develop(canvas, side, draws, image);
  }

  std::uint64_t seed_;
  Split split_;
};

const RegisterDataset register_shape_masks(
    "shape_masks", {.describe = describe,
                    .open = [](const DatasetOptions& options) -> std::unique_ptr<const Dataset> {
                      return std::make_unique<ShapeMasks>(options);
                    },
                    .reads_files = false});

}  // namespace
}  // namespace lacuna
