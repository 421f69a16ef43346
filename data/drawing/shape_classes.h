// The ten outlines of the drawn data sets, and what they have in common: fragments that hide nothing, and noise.
#pragma once

#include "data/drawing/canvas.h"

#include <cstdint>
#include <span>

namespace lacuna::drawing {

struct ShapeClass {
  const char* name;
  void (*paint)(Canvas& canvas, const Pose& pose, const Colour& colour);
  /// Canvas::mark.
  void (*mark)(const Canvas& canvas, const Pose& pose, std::uint8_t value, std::uint8_t border, std::uint8_t* mask);
};
std::span<const ShapeClass> shape_classes();

/// A colour that is plainly brighter than the ground.
Colour brighter_than(const Colour& ground, Draws& draws);
/// Paints small discs, bars and triangles anywhere, of radii from `smallest` to `largest`.
void paint_fragments(int count, float smallest, float largest, Canvas& canvas, Draws& draws);
/// Adds noise and rounds: u8 [side, side, channels].
void develop(const Canvas& canvas, std::int64_t side, const Draws& draws, std::uint8_t* image);

}  // namespace lacuna::drawing
