// The ten outlines of the drawn data sets, and what these have in common: sizes, a ground, fragments that hide nothing,
// and noise. Lengths are in half image sides: the image spans [-1, 1].
#pragma once

#include "data/dataset.h"
#include "data/drawing/canvas.h"

#include <cstdint>
#include <span>
#include <string>

namespace lacuna::drawing {

struct ShapeClass {
  const char* name;
  void (*paint)(Canvas& canvas, const Pose& pose, const Colour& colour);
  /// Canvas::mark.
  void (*mark)(const Canvas& canvas, const Pose& pose, std::uint8_t value, std::uint8_t border, std::uint8_t* mask);
};
std::span<const ShapeClass> shape_classes();

/// A drawn data set as it is unless options say otherwise. Images of other sides than from `smallest_side` to
/// `largest_side` are drawn at the nearest of these and resized like any image.
struct DrawnSizes {
  std::int64_t train, validation, side, smallest_side, largest_side = 1024;
};
/// The description of a data set of drawn shapes; its fields are the images alone, u8 [side, side, channels].
DatasetInfo drawn_shapes(std::string name, const DatasetOptions& options, const DrawnSizes& sizes);

/// Paints a shaded ground and returns its colour.
Colour paint_ground(Canvas& canvas, Draws& draws);
/// A place up to `largest_shift` from the centre along each axis, a rotation of up to 23 degrees, and a radius.
Pose draw_pose(float largest_shift, float smallest_radius, float largest_radius, Draws& draws);
/// A colour that is plainly brighter than the ground.
Colour brighter_than(const Colour& ground, Draws& draws);
/// Paints small discs, bars and triangles anywhere, of radii from `smallest` to `largest`.
void paint_fragments(int count, float smallest, float largest, Canvas& canvas, Draws& draws);
/// Adds noise and rounds: u8 [side, side, channels].
void develop(const Canvas& canvas, std::int64_t side, const Draws& draws, std::uint8_t* image);

}  // namespace lacuna::drawing
