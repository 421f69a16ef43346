// The built-in data set of boxes: drawn images of several shapes and the box around each, generated from a seed as they
// are read. Sample `index` is a function of (seed, split, index, image size), identical on every machine.
#include "core/random.h"
#include "data/dataset.h"
#include "data/detection/boxes.h"
#include "data/drawing/shape_classes.h"

#include <algorithm>

namespace lacuna {
namespace {

using namespace drawing;

// The constants below set the difficulty.
constexpr int most_shapes = 4;  // of an image; some have none
constexpr float smallest_radius = 0.15F, largest_radius = 0.45F;
constexpr float largest_shift = 0.8F;  // offset of a shape's centre along each axis
constexpr int fewest_fragments = 2, most_fragments = 6;
constexpr float smallest_fragment = 0.03F, largest_fragment = 0.07F;

constexpr DrawnSizes sizes{.train = 20000, .validation = 1000, .side = 128, .smallest_side = 32};

DatasetInfo describe_shape_boxes(const DatasetOptions& options) {
  DatasetInfo info = drawn_shapes("shape_boxes", options, sizes);
  for (SampleField& field : box_fields(std::ssize(info.classes), most_shapes)) info.fields.push_back(std::move(field));
  return info;
}

/// The box around the pixels of a mask [side, side] that are not 0.
std::array<double, 4> box_around(const std::vector<std::uint8_t>& mask, std::int64_t side) {
  std::int64_t left = side, top = side, right = 0, bottom = 0;
  for (std::int64_t i = 0; i < side * side; ++i) {
    if (mask[static_cast<std::size_t>(i)] == 0) continue;
    left = std::min(left, i % side);
    right = std::max(right, i % side + 1);
    top = std::min(top, i / side);
    bottom = std::max(bottom, i / side + 1);
  }
  return {static_cast<double>(left), static_cast<double>(top), static_cast<double>(right), static_cast<double>(bottom)};
}

class ShapeBoxes final : public Dataset {
 public:
  explicit ShapeBoxes(const DatasetOptions& options)
      : Dataset(describe_shape_boxes(options)), seed_(options.seed), split_(options.split) {}

 private:
  void read_sample(std::int64_t index, Sample& sample) const override {
    const SampleField& pixels = *find_images(info().fields);
    Tensor image = sample.make(pixels.name, pixels.shape, DType::u8);
    set_boxes(draw(index, pixels.shape[0], image.data<std::uint8_t>()), sample);
    sample.set(pixels.name, std::move(image));
  }

  std::vector<ObjectBox> draw(std::int64_t index, std::int64_t side, std::uint8_t* image) const {
    Draws draws(seed_, split_, random_site("data/shape_boxes"), index);
    Canvas canvas(side);
    const Colour ground = paint_ground(canvas, draws);
    const int fragments = draws.between(fewest_fragments, most_fragments);
    paint_fragments(fragments, smallest_fragment, largest_fragment, canvas, draws);
    std::vector<ObjectBox> boxes;
    const int shapes = draws.between(0, most_shapes);
    for (int i = 0; i < shapes; ++i) {
      const int shape = draws.between(0, static_cast<int>(std::ssize(shape_classes())) - 1);
      const Pose pose = draw_pose(largest_shift, smallest_radius, largest_radius, draws);
      const ShapeClass& kind = shape_classes()[static_cast<std::size_t>(shape)];
      kind.paint(canvas, pose, brighter_than(ground, draws));
      std::vector<std::uint8_t> covered(static_cast<std::size_t>(side * side));
      kind.mark(canvas, pose, 1, 1, covered.data());
      boxes.push_back({.label = shape, .corners = box_around(covered, side)});
    }
    develop(canvas, side, draws, image);
    return boxes;
  }

  std::uint64_t seed_;
  Split split_;
};

const RegisterDataset register_shape_boxes(
    "shape_boxes", {.describe = describe_shape_boxes,
                    .open = [](const DatasetOptions& options) -> std::unique_ptr<const Dataset> {
                      return std::make_unique<ShapeBoxes>(options);
                    },
                    .reads_files = false});

}  // namespace
}  // namespace lacuna
