// Boxes on the host, as torchvision counts them: [K, 4] of left, top, right and bottom in pixels, f32 or f64. Results
// have the type of the tensors that they are computed from.
#pragma once

#include "core/tensor.h"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace lacuna {

/// Boxes of several shapes around each place of a map: the product of sizes (square roots of areas) and ratios (height
/// by width), rounded to whole pixels.
struct AnchorShapes {
  std::vector<double> sizes, ratios;
};
/// torchvision's of each map: `sizes` [maps, sizes of a map], and the ratios 0.5, 1 and 2.
std::vector<AnchorShapes> anchor_shapes(std::span<const std::int64_t> sizes, std::int64_t maps);
/// The anchors of the maps of an image: [A, 4], map by map, row by row, place by place; of a place ratio by ratio, size
/// by size. A place lies at a multiple of the image's side divided by the map's, rounded down.
struct MapSize {
  std::int64_t height, width;
};
Tensor make_anchors(MapSize image, std::span<const MapSize> maps, std::span<const AnchorShapes> shapes,
                    DType type = DType::f32);

/// SSD's default boxes of the maps of an image (Liu et al. 2016): [A, 4], map by map, row by row, place by place.
/// A place has `default_boxes` of them around its centre, clipped to the image's sides: two squares and ratios of 2 and
/// 3 either way. Their scales, as shares of the image, grow by equal steps from `least` to `most`.
inline constexpr std::int64_t default_boxes = 6;
Tensor make_default_boxes(MapSize image, std::span<const MapSize> maps, double least, double most,
                          DType type = DType::f32);

/// Which anchors are of an object. The overlap is the intersection over union.
struct MatchRule {
  double background_below = 0.4;  // overlap with every object: none is there
  double object_from = 0.5;       // the anchor is of the object with which it has the largest overlap
  bool best_anchors = true;       // so is each anchor with the largest overlap of all with some object
  bool claims_best = false;       // each object takes the first of its best anchors; of several, the last object
};
/// For each anchor the number of the true box, -1: background, or -2: left out, between both bounds. Of several equal
/// overlaps the first box counts.
std::vector<std::int64_t> match_anchors(const Tensor& anchors, const Tensor& truth, const MatchRule& rule);

/// How boxes are told as numbers relative to anchors: offsets of the centre by the anchor's sides, and logarithms of
/// the sides' quotients, each times its weight.
struct BoxCoding {
  std::array<float, 4> weights{1, 1, 1, 1};
  /// [K, 4] each.
  Tensor encode(const Tensor& boxes, const Tensor& anchors) const;
  /// Sides grow 62.5 times at most.
  Tensor decode(const Tensor& codes, const Tensor& anchors) const;
};

/// The boxes that are left, by descending score, once each has taken away those that overlap with it more than
/// `threshold` and have its class: numbers of rows. scores [K]; classes i64 [K], or undefined: all the same. Equal
/// scores stay in order.
std::vector<std::int64_t> suppress(const Tensor& boxes, const Tensor& scores, const Tensor& classes, double threshold);

}  // namespace lacuna
