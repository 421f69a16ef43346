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

// The constants below set the difficulty.
constexpr int fewest_shapes = 1, most_shapes = 3;
constexpr float smallest_radius = 0.3F, largest_radius = 0.6F;
constexpr float largest_shift = 0.75F;  // offset of a shape's centre along each axis
constexpr float highest_stripes = 0.12F, shortest_period = 0.1F, longest_period = 0.5F;
constexpr int fewest_fragments = 2, most_fragments = 6;
constexpr float smallest_fragment = 0.04F, largest_fragment = 0.1F;

constexpr DrawnSizes sizes{.train = 20000, .validation = 1000, .side = 64, .smallest_side = 16};

DatasetInfo describe(const DatasetOptions& options) {
  DatasetInfo info = drawn_shapes("shape_masks", options, sizes);
  info.classes.insert(info.classes.begin(), "background");
  const Shape& images = info.fields.front().shape;
  info.fields.push_back(mask_field(std::ssize(info.classes), images[0], images[1]));
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
    const Colour ground = paint_ground(canvas, draws);
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
      const Pose pose = draw_pose(largest_shift, smallest_radius, largest_radius, draws);
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
