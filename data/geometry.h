// How a transform moves the pixels of an image, and how a sample's masks and boxes follow.
#pragma once

#include "data/image_size.h"
#include "data/sample.h"

#include <cstdint>
#include <variant>
#include <vector>

namespace lacuna {

struct ImageBox {
  std::int64_t top = 0, left = 0, height = 0, width = 0;
};

/// A window of a resized box of an image.
struct View {
  ImageBox box;                    // box of the source image
  std::int64_t height, width;      // size to which the box is resized
  std::int64_t top = 0, left = 0;  // the window's corner in the resized box; negative: outside of it
  bool flip = false;               // flip the window horizontally
};

/// Maps an output pixel centre (x, y) to its source: (xx·x + xy·y + x0, yx·x + yy·y + y0).
struct Affine {
  double xx = 1, xy = 0, x0 = 0, yx = 0, yy = 1, y0 = 0;
};

/// One step of a transform: pixels of an image of size `from` become one of size `to`.
struct Move {
  ImageSize from, to;  // equal for an affine map
  std::variant<View, Affine> how;
};
/// The steps of a transform in order; empty if it leaves pixels where they are.
using Geometry = std::vector<Move>;

/// The steps of a crop or flip that scales nothing.
Geometry moved_window(ImageSize size, std::int64_t top, std::int64_t left, bool flip = false);

/// Whether fields of this kind follow the pixels of their sample.
bool follows_pixels(FieldKind kind);
/// The fields of samples whose pixels become `pixels`: masks get their size. Rejects a field that cannot follow.
SampleFields follow(SampleFields fields, const SampleField& pixels);
/// Moves the masks and boxes of a sample as its pixels were moved. Rejects a mask of another size than the image.
void follow(const Geometry& geometry, const SampleFields& fields, Sample& sample);

}  // namespace lacuna
