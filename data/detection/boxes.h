// Images with the boxes of the objects in them.
#pragma once

#include "data/batch.h"
#include "data/field.h"
#include "data/files/file_tree.h"
#include "data/sample.h"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lacuna {

/// The object counts for nothing in an evaluation, and is not trained on.
enum class Uncounted : std::uint8_t {
  no,
  crowd,     // several objects, as COCO's `iscrowd`
  difficult  // as VOC marks it
};

struct ObjectBox {
  std::int64_t label = 0;
  std::array<double, 4> corners{};  // left, top, right, bottom
  double area = 0;                  // of the outline in pixels; 0: that of the box
  Uncounted uncounted = Uncounted::no;
};

struct BoxedImage {
  std::int64_t file = 0;               // of the tree
  std::int64_t height = 0, width = 0;  // as the annotations say; 0: they do not
  std::vector<ObjectBox> boxes{};      // in pixels, or in fractions of the image's sides
};

/// The images of a split, in the order in which evaluations count them.
struct BoxedImages {
  std::shared_ptr<const FileTree> tree;
  std::vector<BoxedImage> images{};
  bool in_fractions = false;
  std::int64_t left_out = 0;  // boxes without width or height, and repeated ones
  std::int64_t clipped = 0;   // boxes that reach beyond their image by more than rounding
};

/// Clips boxes to [0, width] x [0, height] and drops those that have no width or height then.
void clip(std::vector<ObjectBox>& boxes, double width, double height);

/// Clips boxes to their image where its size is known, drops those without width or height, and counts both.
/// Rejects images whose boxes are all like that, naming `origin`.
void clean(BoxedImages& images, const std::string& origin);

/// `boxes` f32 [K, 4] in pixels, and for each `box_labels` i64, `box_fills` f32 (the area of the object's outline by
/// that of the box) and `box_uncounted` i64 (Uncounted) [K]; K may be 0 and is `most` at most.
SampleFields box_fields(std::int64_t classes, std::int64_t most);
/// Sets these fields from boxes in pixels.
void set_boxes(const std::vector<ObjectBox>& boxes, Sample& sample);
/// The boxes of sample `row` of a batch with these fields on the CPU.
std::vector<ObjectBox> boxes_of(const Batch& batch, std::int64_t row);

}  // namespace lacuna
