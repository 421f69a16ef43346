// Proposals of regions and samples of them for losses, on the host, as torchvision's Faster R-CNN has them. Boxes are
// [K, 4] of left, top, right and bottom in pixels, f32 or f64.
#pragma once

#include "core/random.h"
#include "core/tensor.h"
#include "data/image_size.h"

#include <cstdint>
#include <span>
#include <vector>

namespace lacuna {

/// Outputs for a map's anchors [A, 4]: how likely each shows an object, and the place of its box. f32 or f64.
struct MapProposals {
  Tensor logits, codes, anchors;  // [N, ...] of N · A; [N, ...] of N · A · 4; [A, 4]
};
struct ProposalRule {
  std::int64_t of_map, of_image;  // the most boxes of a map before, of an image after the suppression
  double nms_thresh;
};
/// The proposals of an image, the best first: [P, 4]. An image without any has itself.
Tensor best_proposals(std::span<const MapProposals> maps, std::int64_t image, ImageSize size, const ProposalRule& rule);

/// Numbers in ascending order of at most `most` matches (match_anchors) that are not left out: a `fraction` with an
/// object at most, and the rest background. Too many are drawn from, by the image's number in the global batch.
std::vector<std::int64_t> draw_balanced(std::span<const std::int64_t> matches, std::int64_t most, double fraction,
                                        const RandomStream& draws, std::uint64_t image);

/// Clips boxes to the image in place; returns the numbers of those whose sides are `least` or longer.
std::vector<std::int64_t> clip_boxes(const Tensor& boxes, ImageSize size, double least);

/// The map on which box `number` is looked at, counted from the finest, by its area (Lin et al. 2017, equation 1). Maps
/// are numbered by the logarithms of their strides.
std::int64_t map_of_box(const Tensor& boxes, std::int64_t number, double finest, double coarsest);

/// Boxes one behind another, of one tensor or more.
Tensor rows_of(std::span<const Tensor> boxes);

}  // namespace lacuna
