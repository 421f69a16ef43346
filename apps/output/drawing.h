// Boxes and labels drawn into pictures for people.
#pragma once

#include "core/tensor.h"
#include "data/batch.h"
#include "data/images/png_file.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace lacuna::apps {

struct DrawnBox {
  std::array<double, 4> corners{};  // left, top, right, bottom, in pixels
  std::string name{};               // of the class, which has one colour
  std::string text{};               // on the box
};
/// A copy of a picture u8 [H, W, 3] with boxes and their texts, the first ones on top. Colours are class_color's by the
/// place of the name among `classes`, and for others by their order after them. Letters outside ASCII are shown as `?`.
Tensor with_boxes(const Tensor& picture, const std::vector<DrawnBox>& boxes, const std::vector<std::string>& classes);
/// The true boxes of sample `row` of a batch, under the names of their classes.
std::vector<DrawnBox> true_boxes(const Batch& batch, std::int64_t row, const std::vector<std::string>& classes);

/// The picture u8 [H, W, 3] half covered by the colours of its classes (see overlay), with the names of those that cover
/// 1 % at least, the largest first. Letters outside ASCII are shown as `?`.
Tensor with_classes(const Tensor& picture, const Tensor& classes, const std::vector<std::string>& names,
                    std::int64_t left_out = -1);

}  // namespace lacuna::apps
