// The built-in data set of images of ten shapes. Only a shape's outline tells its class: it is bright on a darker,
// shaded ground, rotated by up to 23 degrees, in any colour, among fragments and noise. Image `index` is a function of
// (seed, split, index, image size), identical on every machine.
#include "core/error.h"
#include "data/drawing/shape_classes.h"

namespace lacuna {
namespace {

using namespace drawing;

// The constants below set the difficulty.
constexpr float smallest_radius = 0.45F, largest_radius = 0.75F;
constexpr float largest_shift = 0.35F;  // offset of the shape's centre along each axis
constexpr int fewest_fragments = 1, most_fragments = 4;
constexpr float smallest_fragment = 0.08F, largest_fragment = 0.18F;

constexpr DrawnSizes sizes{.train = 50000, .validation = 5000, .side = 32, .smallest_side = 8};

DatasetInfo describe(const DatasetOptions& options) {
  DatasetInfo info = drawn_shapes("shapes", options, sizes);
  info.fields = image_fields(info.fields.front().shape[0], info.fields.front().shape[1], channels);
  info.deviation = {0.233F, 0.233F, 0.233F};
  return info;
}

class Shapes final : public ImageDataset {
 public:
  explicit Shapes(const DatasetOptions& options)
      : ImageDataset(describe(options)), seed_(options.seed), split_(options.split) {}

  std::int64_t label(std::int64_t index) const override { return index % std::ssize(shape_classes()); }

  std::int64_t read_image(std::int64_t index, std::uint8_t* image) const override {
    expect(0 <= index && index < size(), "{} has no image {}: it holds {}", info().name, index, size());
    const std::int64_t shape = label(index), side = find_images(info().fields)->shape[0];
    Draws draws(seed_, split_, random_site("data/shapes"), index);
    Canvas canvas(side);
    const Colour ground = paint_ground(canvas, draws);
    const int fragments = draws.between(fewest_fragments, most_fragments);
    paint_fragments(fragments - fragments / 2, smallest_fragment, largest_fragment, canvas, draws);
    const Pose pose = draw_pose(largest_shift, smallest_radius, largest_radius, draws);
    shape_classes()[static_cast<std::size_t>(shape)].paint(canvas, pose, brighter_than(ground, draws));
    paint_fragments(fragments / 2, smallest_fragment, largest_fragment, canvas, draws);
    develop(canvas, side, draws, image);
    return shape;
  }

 private:
  std::uint64_t seed_;
  Split split_;
};

const RegisterDataset register_shapes("shapes",
                                      {.describe = describe,
                                       .open = [](const DatasetOptions& options) -> std::unique_ptr<const Dataset> {
                                         return std::make_unique<Shapes>(options);
                                       },
                                       .reads_files = false});

}  // namespace
}  // namespace lacuna
