#include "data/detection/boxes.h"

#include "core/error.h"

#include <algorithm>

namespace lacuna {
namespace {

bool is_empty(const ObjectBox& box) { return box.corners[2] <= box.corners[0] || box.corners[3] <= box.corners[1]; }

/// By more than a pixel, or a hundredth of the image.
bool reaches_beyond(const ObjectBox& box, double width, double height) {
  const double rounding = width == 1 && height == 1 ? 0.01 : 1;
  return box.corners[0] < -rounding || box.corners[1] < -rounding || box.corners[2] > width + rounding ||
         box.corners[3] > height + rounding;
}

}  // namespace

void clip(std::vector<ObjectBox>& boxes, double width, double height) {
  for (ObjectBox& box : boxes)
    for (std::size_t i = 0; i < 4; ++i) box.corners[i] = std::clamp(box.corners[i], 0.0, i % 2 == 0 ? width : height);
  std::erase_if(boxes, is_empty);
}

void clean(BoxedImages& images, const std::string& origin) {
  std::int64_t given = 0, kept = 0;
  for (BoxedImage& image : images.images) {
    given += std::ssize(image.boxes);
    if (images.in_fractions || image.width > 0) {
      const double width = images.in_fractions ? 1 : static_cast<double>(image.width),
                   height = images.in_fractions ? 1 : static_cast<double>(image.height);
      std::vector<ObjectBox> beyond = image.boxes;
      std::erase_if(beyond, [&](const ObjectBox& box) { return !reaches_beyond(box, width, height); });
      clip(beyond, width, height);  // those that are left out are counted as such
      images.clipped += std::ssize(beyond);
      clip(image.boxes, width, height);
    } else {
      std::erase_if(image.boxes, is_empty);
    }
    kept += std::ssize(image.boxes);
  }
  if (given > 0 && kept == 0) reject("{}: none of {} boxes has a width and a height within its image", origin, given);
  images.left_out += given - kept;
}

SampleFields box_fields(std::int64_t classes, std::int64_t most) {
  const auto of_boxes = [&](std::string name, FieldKind kind, DType dtype, const Shape& shape) {
    return SampleField{.name = std::move(name),
                       .kind = kind,
                       .dtype = dtype,
                       .shape = shape,
                       .collation = Collation::packed,
                       .lengths = "box_offsets"};
  };
  SampleFields fields{of_boxes("boxes", FieldKind::boxes, DType::f32, {most, 4}),
                      of_boxes("box_labels", FieldKind::number, DType::i64, {most}),
                      of_boxes("box_fills", FieldKind::number, DType::f32, {most}),
                      of_boxes("box_uncounted", FieldKind::number, DType::i64, {most})};
  fields[1].below = classes;
  fields[3].below = 3;
  return fields;
}

void set_boxes(const std::vector<ObjectBox>& boxes, Sample& sample) {
  const std::int64_t count = std::ssize(boxes);
  Tensor corners = sample.make("boxes", {count, 4}, DType::f32),
         labels = sample.make("box_labels", {count}, DType::i64), fills = sample.make("box_fills", {count}, DType::f32),
         uncounted = sample.make("box_uncounted", {count}, DType::i64);
  for (std::int64_t k = 0; k < count; ++k) {
    const ObjectBox& box = boxes[static_cast<std::size_t>(k)];
    std::ranges::transform(box.corners, corners.data<float>() + 4 * k, [](double v) { return static_cast<float>(v); });
    labels.data<std::int64_t>()[k] = box.label;
    const double own = (box.corners[2] - box.corners[0]) * (box.corners[3] - box.corners[1]);
    fills.data<float>()[k] = static_cast<float>(box.area > 0 && own > 0 ? box.area / own : 1);
    uncounted.data<std::int64_t>()[k] = static_cast<std::int64_t>(box.uncounted);
  }
  sample.set("boxes", std::move(corners));
  sample.set("box_labels", std::move(labels));
  sample.set("box_fills", std::move(fills));
  sample.set("box_uncounted", std::move(uncounted));
}

std::vector<ObjectBox> boxes_of(const Batch& batch, std::int64_t row) {
  const std::int64_t* const offsets = batch["box_offsets"].data<const std::int64_t>();
  std::vector<ObjectBox> boxes;
  for (std::int64_t k = offsets[row]; k < offsets[row + 1]; ++k) {
    ObjectBox box{.label = batch["box_labels"].data<const std::int64_t>()[k],
                  .uncounted = static_cast<Uncounted>(batch["box_uncounted"].data<const std::int64_t>()[k])};
    std::copy_n(batch["boxes"].data<const float>() + 4 * k, 4, box.corners.begin());
    boxes.push_back(box);
  }
  return boxes;
}

}  // namespace lacuna
