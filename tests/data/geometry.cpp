#include "data/geometry.h"

#include "core/error.h"
#include "data/augment/auto_augment.h"
#include "data/augment/policies.h"
#include "data/images/view.h"
#include "data/loader.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace lacuna {
namespace {

using Values = std::vector<double>;

/// Pictures of rectangles on black. Rectangle k has the class k + 1 in the mask, the brightness `bright(k)` in the
/// image, and a box; no two overlap.
class Scenes final : public Dataset {
 public:
  static constexpr std::int64_t height = 30, width = 40, objects = 3;

  explicit Scenes(std::int64_t size, std::int64_t mask_height = height)
      : Dataset(
            {.name = "scenes",
             .size = size,
             .fields = {{.name = "picture", .kind = FieldKind::pixels, .dtype = DType::u8, .shape = {height, width, 1}},
                        {.name = "areas", .kind = FieldKind::mask, .dtype = DType::u8, .shape = {height, width}},
                        {.name = "boxes",
                         .kind = FieldKind::boxes,
                         .dtype = DType::f32,
                         .shape = {objects, 4},
                         .collation = Collation::packed,
                         .lengths = "box_offsets"},
                        {.name = "objects",
                         .dtype = DType::i64,
                         .shape = {objects},
                         .collation = Collation::packed,
                         .lengths = "box_offsets"},
                        {.name = "score", .dtype = DType::f32, .shape = {}}},
             .mean = {0},
             .deviation = {1}}),
        mask_height_(mask_height) {}

 private:
  void read_sample(std::int64_t index, Sample& sample) const override {
    Tensor picture = sample.make("picture", {height, width, 1}, DType::u8),
           areas = sample.make("areas", {mask_height_, width}, DType::u8),
           boxes = sample.make("boxes", {objects, 4}, DType::f32),
           classes = sample.make("objects", {objects}, DType::i64), score = sample.make("score", {}, DType::f32);
    picture.fill(0);
    areas.fill(0);
    score.fill(0.5 * static_cast<double>(index));
    for (std::int64_t k = 0; k < objects; ++k) {
      const std::int64_t left = 13 * k + 1 + index % 3, right = left + 5 + (index + k) % 5,
                         top = 2 + (7 * index + 5 * k) % 12, bottom = top + 4 + (index + 2 * k) % 13;
      for (std::int64_t y = top; y < bottom; ++y)
        for (std::int64_t x = left; x < right; ++x) {
          picture.data<std::uint8_t>()[y * width + x] = 255;
          if (y < mask_height_) areas.data<std::uint8_t>()[y * width + x] = static_cast<std::uint8_t>(k + 1);
        }
      std::ranges::copy(std::vector<float>{static_cast<float>(left), static_cast<float>(top), static_cast<float>(right),
                                           static_cast<float>(bottom)},
                        boxes.data<float>() + 4 * k);
      classes.data<std::int64_t>()[k] = k + 1;
    }
    for (const auto& [name, tensor] :
         NamedTensors{{"picture", picture}, {"areas", areas}, {"boxes", boxes}, {"objects", classes}, {"score", score}})
      sample.set(name, tensor);
  }

  std::int64_t mask_height_;
};

struct Seen {
  Values picture, areas, boxes, objects;
  Shape shape;
};

Seen seen(const Transforms& transforms, std::int64_t index, std::int64_t epoch = 0) {
  const DatasetPtr scenes = transform(std::make_shared<Scenes>(50), transforms, 1);
  Sample sample;
  sample.begin(epoch);
  scenes->read(index, sample);
  CHECK(sample["score"].to_vector() == Values{0.5 * static_cast<double>(index)});
  return {sample["picture"].to_vector(), sample["areas"].to_vector(), sample["boxes"].to_vector(),
          sample["objects"].to_vector(), sample["areas"].shape()};
}

/// The rectangle around the pixels of a class: left, top, right, bottom; empty if there are none.
Values around(const Seen& scene, double of_class) {
  const std::int64_t width = scene.shape[1];
  Values box;
  for (std::int64_t i = 0; i < scene.shape.count(); ++i) {
    if (scene.areas[static_cast<std::size_t>(i)] != of_class) continue;
    const auto x = static_cast<double>(i % width), y = static_cast<double>(i / width);
    if (box.empty()) box = {x, y, x + 1, y + 1};
    box = {std::min(box[0], x), std::min(box[1], y), std::max(box[2], x + 1), std::max(box[3], y + 1)};
  }
  return box;
}

Values box_of(const Seen& scene, double of_class) {
  for (std::size_t i = 0; i < scene.objects.size(); ++i)
    if (scene.objects[i] == of_class)
      return {scene.boxes.begin() + static_cast<std::ptrdiff_t>(4 * i),
              scene.boxes.begin() + static_cast<std::ptrdiff_t>(4 * i + 4)};
  return {};
}

/// A pixel that only one class reaches has that class in the mask. Returns the share of such pixels.
double agreement(const Seen& scene) {
  std::int64_t sure = 0, right = 0;
  for (std::size_t i = 0; i < scene.areas.size(); ++i) {
    const double value = scene.picture[i];
    if (value != 0 && value != 255) continue;
    ++sure;
    right += (value == 255) == (scene.areas[i] != 0) ? 1 : 0;
  }
  CHECK(right == sure);
  return static_cast<double>(sure) / static_cast<double>(scene.areas.size());
}

TEST_CASE("a mask and boxes follow a crop and a flip exactly, and what leaves the image is dropped") {
  const Transforms transforms{std::make_shared<RandomCrop>(14), std::make_shared<RandomFlip>(0.5)};
  int dropped = 0, clipped = 0;
  for (std::int64_t index = 0; index < 50; ++index)
    for (std::int64_t epoch = 0; epoch < 8; ++epoch) {
      const Seen scene = seen(transforms, index, epoch), whole = seen({}, index);
      CHECK(agreement(scene) == 1);
      for (double of_class = 1; of_class <= Scenes::objects; ++of_class) {
        const Values box = box_of(scene, of_class);
        CHECK(box == around(scene, of_class));
        dropped += box.empty() ? 1 : 0;
        const Values before = box_of(whole, of_class);
        clipped += !box.empty() && box[2] - box[0] < before[2] - before[0] ? 1 : 0;
      }
    }
  CHECK(dropped > 50);
  CHECK(clipped > 50);
}

/// A view chosen beforehand.
class FixedView final : public ViewTransform {
 public:
  FixedView(ImageSize size, const View& view) : ViewTransform({.size = size}), view_(view) {}
  View view(std::int64_t, std::int64_t, SampleRandom&) const override { return view_; }

 private:
  View view_;
};

TEST_CASE("a box of which a crop leaves less than a pixel goes, a small box in the image stays") {
  const SampleFields fields{{.name = "boxes",
                             .kind = FieldKind::boxes,
                             .dtype = DType::f32,
                             .shape = {9, 4},
                             .collation = Collation::packed,
                             .lengths = "offsets"}};
  const auto kept = [&](const Values& boxes, const View& view) {
    Sample sample;
    sample.begin(0);
    Tensor all = sample.make("boxes", {std::ssize(boxes) / 4, 4}, DType::f32);
    std::ranges::transform(boxes, all.data<float>(), [](double v) { return static_cast<float>(v); });
    sample.set("boxes", std::move(all));
    follow({Move{.from = {20, 20}, .to = {10, 10}, .how = view}}, fields, sample);
    return sample["boxes"].to_vector();
  };
  const View crop{.box = {.top = 5, .left = 5, .height = 10, .width = 10}, .height = 10, .width = 10};
  CHECK(kept({0, 6, 5.5, 12, 0, 6, 6, 12, 8, 8, 8.5, 9, 2, 8, 9, 8.5}, crop) ==
        Values{0, 1, 1, 7, 3, 3, 3.5, 4, 0, 3, 4, 3.5});
  View flipped = crop;
  flipped.flip = true;
  CHECK(kept({0, 6, 5.5, 12, 14.5, 6, 20, 12, 6, 14.5, 9, 20, 14, 6, 20, 12}, flipped) == Values{0, 1, 1, 7});
}

TEST_CASE("a mask takes the nearest pixel of a view, and boxes its corners") {
  const View views[]{{.box = {0, 0, 30, 40}, .height = 17, .width = 23, .top = 1, .left = 4},
                     {.box = {3, 5, 20, 30}, .height = 61, .width = 47, .top = 20, .left = 9, .flip = true},
                     {.box = {0, 0, 30, 40}, .height = 12, .width = 16, .top = -2, .left = -1},
                     {.box = {4, 0, 9, 40}, .height = 16, .width = 16, .flip = true}};
  constexpr std::int64_t side = 16;
  for (const View& view : views)
    for (std::int64_t index = 0; index < 50; ++index) {
      const Seen whole = seen({}, index), scene = seen({std::make_shared<FixedView>(side, view)}, index);
      const auto source = [](std::int64_t position, std::int64_t of, std::int64_t target) {
        return nearest_positions(of, target, position + 1).back();
      };
      for (std::int64_t y = 0; y < side; ++y)
        for (std::int64_t x = 0; x < side; ++x) {
          const std::int64_t column = view.left + (view.flip ? side - 1 - x : x), row = view.top + y;
          const bool inside = 0 <= row && row < view.height && 0 <= column && column < view.width;
          const std::int64_t from = inside
                                        ? (view.box.top + source(row, view.box.height, view.height)) * Scenes::width +
                                              view.box.left + source(column, view.box.width, view.width)
                                        : 0;
          const double expected = inside ? whole.areas[static_cast<std::size_t>(from)] : 0;
          CHECK(scene.areas[static_cast<std::size_t>(y * side + x)] == expected);
        }
      for (double of_class = 1; of_class <= Scenes::objects; ++of_class) {
        const Values box = box_of(scene, of_class), pixels = around(scene, of_class);
        if (pixels.empty()) continue;  // a box may be too thin for a pixel
        if (box.empty()) CHECK(std::min(pixels[2] - pixels[0], pixels[3] - pixels[1]) == 1);  // less than one is left
        if (box.empty()) continue;
        REQUIRE(box.size() == 4);
        for (std::size_t i = 0; i < 4; ++i) CHECK(std::abs(box[i] - pixels[i]) <= 0.5 + 1e-4);
      }
    }
  const Seen squashed =
      seen({std::make_shared<FixedView>(20, View{.box = {0, 0, 30, 40}, .height = 60, .width = 20})}, 0);
  CHECK(box_of(squashed, 1) == Values{0.5, 4, 3, 12});
}

TEST_CASE("images need not be square: crops, center views and their masks") {
  const DatasetInfo info = Scenes(1).info();
  for (const char* const mode : {"center", "squash", "border"})
    for (const ImageSize& size : {ImageSize(12, 20), ImageSize(30, 18), ImageSize(60, 80)}) {
      CAPTURE(mode);
      Transforms views = image_transforms(info, {.image_size = size, .crop_mode = mode});
      views.pop_back();  // normalisation
      const Seen scene = seen(views, 3);
      CHECK(scene.shape == Shape{size.height, size.width});
      CHECK(agreement(scene) > 0.5);
    }
  Transforms crop = image_transforms(info, {.image_size = {12, 20}, .augment = "random_resized_crop"});
  crop.pop_back();
  for (std::int64_t index = 0; index < 50; ++index) CHECK(seen(crop, index).shape == Shape{12, 20});
  // The whole image at half its size: nothing is cropped, so boxes shrink by half.
  Transforms half = image_transforms(info, {.image_size = {15, 20}});
  half.pop_back();
  const Values box = box_of(seen({}, 5), 2), halved = box_of(seen(half, 5), 2);
  for (std::size_t i = 0; i < 4; ++i) CHECK(halved[i] == box[i] / 2);
  CHECK_THROWS_AS(image_transforms(info, {.image_size = {0, 20}}), Error);
}

TEST_CASE("a mask and boxes follow rotation, shear and translation") {
  const auto augmented = [](const char* name, double magnitude) {
    augment::Policy policy{.layers = 1};
    policy.steps = {{.operation = &augment::operation(name), .probability = 1, .magnitude = magnitude}};
    return Transforms{augment::make_auto_augment(policy, {.fill = {0}, .filter = ResizeFilter::bilinear})};
  };
  for (const char* const name : {"Rotate", "ShearX", "ShearY", "TranslateXRel", "TranslateYRel"})
    for (std::int64_t index = 0; index < 50; ++index) {
      CAPTURE(name);
      const Seen scene = seen(augmented(name, 9), index);
      CHECK(agreement(scene) > 0.6);
      for (double of_class = 1; of_class <= Scenes::objects; ++of_class) {
        const Values box = box_of(scene, of_class), pixels = around(scene, of_class);
        if (pixels.empty()) continue;
        REQUIRE(box.size() == 4);
        for (std::size_t i = 0; i < 4; ++i) {
          const double inwards = i < 2 ? pixels[i] - box[i] : box[i] - pixels[i];
          CHECK(inwards >= -0.5 - 1e-4);
          // The edge of the image may cut off the furthest corners of an object.
          if (box[0] > 0 && box[1] > 0 && box[2] < Scenes::width && box[3] < Scenes::height) CHECK(inwards <= 2.5);
        }
      }
    }
  // Two steps follow in their order: what the first one moved out of the image stays out.
  augment::Policy both{.kind = augment::Policy::Kind::choice};
  const augment::Step step{.operation = &augment::operation("TranslateXRel"), .probability = 1, .magnitude = 10};
  both.chains = {{step, step, {.operation = &augment::operation("Invert"), .probability = 1}}};
  const Transforms twice{augment::make_auto_augment(both, {.fill = {0}, .filter = ResizeFilter::bilinear})};
  for (std::int64_t index = 0; index < 50; ++index) {
    Seen scene = seen(twice, index);
    for (double& value : scene.picture) value = 255 - value;
    agreement(scene);
  }
}

TEST_CASE("boxes are packed, and pixels beside them are normalised as they are alone") {
  const DatasetPtr scenes = std::make_shared<Scenes>(10);
  const Transforms all = image_transforms(scenes->info(), {.image_size = 16, .augment = "random_resized_crop"});
  const auto [early, late] = split_at_f32(all, scenes->info().fields);
  const DatasetPtr ready = transform(scenes, all, 3);
  const Batches batches(transform(scenes, early, 3), {.size = 5, .late = late});
  CHECK(field_of(batches.info().fields, "areas").shape == Shape{16, 16});
  Loader loader(batches, {.end_epoch = 1, .workers = 2});
  std::int64_t index = 0;
  while (const auto batch = loader.next()) {
    const auto* const offsets = (*batch)["box_offsets"].data<const std::int64_t>();
    for (std::int64_t i = 0; i < batch->samples; ++i, ++index) {
      Sample sample;
      sample.begin(0);
      ready->read(index, sample);
      CHECK((*batch)["picture"].leading(i, i + 1).to_vector() == sample["picture"].to_vector());
      CHECK((*batch)["areas"].leading(i, i + 1).to_vector() == sample["areas"].to_vector());
      CHECK((*batch)["boxes"].leading(offsets[i], offsets[i + 1]).to_vector() == sample["boxes"].to_vector());
      CHECK((*batch)["objects"].leading(offsets[i], offsets[i + 1]).to_vector() == sample["objects"].to_vector());
    }
  }
  CHECK(index == 10);
}

TEST_CASE("fields that cannot follow are refused") {
  const DatasetPtr scenes = std::make_shared<Scenes>(10);
  const Transforms augmix{augment::make_auto_augment(augment::parse_policy("augmix"), {.fill = {0}})};
  CHECK_THROWS_WITH_AS(transform(scenes, augmix, 1), doctest::Contains("augmix"), Error);
  const Transforms flip{std::make_shared<RandomFlip>(1)};
  Sample sample;
  sample.begin(0);
  CHECK_THROWS_WITH_AS(transform(std::make_shared<Scenes>(1, 29), flip, 1)->read(0, sample), doctest::Contains("areas"),
                       DamagedSample);
  SampleFields fields = scenes->info().fields;
  fields[2].collation = Collation::stacked;
  CHECK_THROWS_AS(describe(flip, fields), Error);
  fields = scenes->info().fields;
  fields.push_back({.name = "depth", .kind = FieldKind::pixels, .dtype = DType::u8, .shape = {30, 40, 1}});
  CHECK_THROWS_WITH_AS(describe(flip, fields), doctest::Contains("depth"), Error);
  fields = scenes->info().fields;
  fields[0].dtype = DType::f32;
  CHECK_THROWS_WITH_AS(Mixing({.mixup = 1, .classes = 4}).describe(fields), doctest::Contains("areas"), Error);
}

/// Rings of index + 1 nodes.
class Rings final : public Dataset {
 public:
  explicit Rings(std::int64_t shift = 0)
      : Dataset({.name = "rings",
                 .size = 6,
                 .fields = {{.name = "edges",
                             .kind = FieldKind::edges,
                             .dtype = DType::i64,
                             .shape = {6, 2},
                             .collation = Collation::packed,
                             .lengths = "edge_offsets",
                             .indexes = "node_offsets"},
                            {.name = "nodes",
                             .dtype = DType::f32,
                             .shape = {6, 1},
                             .collation = Collation::packed,
                             .lengths = "node_offsets"},
                            {.name = "size", .dtype = DType::f32, .shape = {}}}}),
        shift_(shift) {}

 private:
  void read_sample(std::int64_t index, Sample& sample) const override {
    const std::int64_t count = index + 1;
    const Tensor edges = sample.make("edges", {count, 2}, DType::i64),
                 nodes = sample.make("nodes", {count, 1}, DType::f32), size = sample.make("size", {}, DType::f32);
    for (std::int64_t i = 0; i < count; ++i) {
      edges.data<std::int64_t>()[2 * i] = i + shift_;
      edges.data<std::int64_t>()[2 * i + 1] = (i + 1) % count;
      nodes.data<float>()[i] = static_cast<float>(10 * index + i);
    }
    size.fill(static_cast<double>(count));
    sample.set("edges", edges);
    sample.set("nodes", nodes);
    sample.set("size", size);
  }

  std::int64_t shift_;
};

TEST_CASE("edges follow their rows into a batch and into its parts") {
  const auto check = [](const Batch& batch) {
    const Values nodes = batch["nodes"].to_vector(), edges = batch["edges"].to_vector();
    const auto* const offsets = batch["node_offsets"].data<const std::int64_t>();
    for (std::int64_t i = 0; i < batch.samples; ++i) {
      const std::int64_t count = offsets[i + 1] - offsets[i], sample = batch.first + i;
      CHECK(count == sample + 1);
      for (std::int64_t k = 0; k < count; ++k)
        for (std::int64_t end = 0; end < 2; ++end) {
          const double row = edges[static_cast<std::size_t>(2 * (offsets[i] + k) + end)];
          CHECK(nodes[static_cast<std::size_t>(row)] == static_cast<double>(10 * sample + (k + end) % count));
        }
    }
  };
  Sample sample;
  const Batches batches(std::make_shared<Rings>(), {.size = 6});
  const Batch batch = batches.read(0, 0, batches.allocate(), sample);
  check(batch);
  CHECK(batch["size"].to_vector() == Values{1, 2, 3, 4, 5, 6});
  for (const Batch& part : split_batch(batch, 3)) check(part);
  check(split_batch(batch, 2)[1].part(1, 3));
  const Batches broken(std::make_shared<Rings>(1), {.size = 6});
  CHECK_THROWS_WITH_AS(broken.read(0, 0, broken.allocate(), sample), doctest::Contains("edges"), DamagedSample);
}

}  // namespace
}  // namespace lacuna
