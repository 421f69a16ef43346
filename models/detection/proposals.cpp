#include "models/detection/proposals.h"

#include "core/math.h"
#include "models/detection/detector.h"
#include "ops/detection/boxes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace lacuna {
namespace {

/// Leaves `most` of the numbers: those with the smallest draws.
void draw(std::vector<std::int64_t>& numbers, std::int64_t most, const RandomStream& draws, std::uint64_t image) {
  if (std::ssize(numbers) <= most) return;
  const auto key = [&](std::int64_t i) {
    const auto element = static_cast<std::uint32_t>(i);
    return std::pair(draws.draw_of_sample(image, element / 4)[element % 4], i);
  };
  std::ranges::nth_element(numbers, numbers.begin() + most, {}, key);
  numbers.resize(static_cast<std::size_t>(most));
}

}  // namespace

Tensor best_proposals(std::span<const MapProposals> maps, std::int64_t image, ImageSize size,
                      const ProposalRule& rule) {
  constexpr float least_side = 1e-3F;
  std::vector<float> codes, anchors, scores;
  std::vector<std::int64_t> of_maps;
  for (std::size_t m = 0; m < maps.size(); ++m) {
    const std::int64_t count = maps[m].anchors.shape()[0], first = image * count;
    const float* const own = maps[m].logits.data<const float>() + first;
    for (const std::int64_t a : best_scores(own, count, -std::numeric_limits<double>::infinity(), rule.of_map)) {
      append_box(maps[m].codes, first + a, codes);
      append_box(maps[m].anchors, a, anchors);
      scores.push_back(math::sigmoid(own[a]));
      of_maps.push_back(static_cast<std::int64_t>(m));
    }
  }
  const Tensor boxes = BoxCoding{}.decode(as_boxes(codes), as_boxes(anchors));
  std::vector<float> large, large_scores;
  std::vector<std::int64_t> large_maps;
  for (const std::int64_t k : clip_boxes(boxes, size, least_side)) {
    append_box(boxes, k, large);
    large_scores.push_back(scores[static_cast<std::size_t>(k)]);
    large_maps.push_back(of_maps[static_cast<std::size_t>(k)]);
  }
  const auto count = std::ssize(large_maps);
  const Tensor candidates = as_boxes(large);
  std::vector<float> left;
  for (const std::int64_t k :
       suppress(candidates, Tensor::from(std::span<const float>(large_scores), {count}),
                Tensor::from(std::span<const std::int64_t>(large_maps), {count}), rule.nms_thresh)) {
    if (std::ssize(left) == 4 * rule.of_image) break;
    append_box(candidates, k, left);
  }
  if (left.empty()) left = {0, 0, static_cast<float>(size.width), static_cast<float>(size.height)};
  return as_boxes(left);
}

std::vector<std::int64_t> draw_balanced(std::span<const std::int64_t> matches, std::int64_t most, double fraction,
                                        const RandomStream& draws, std::uint64_t image) {
  std::vector<std::int64_t> objects, background;
  for (std::int64_t i = 0; i < std::ssize(matches); ++i) {
    const std::int64_t match = matches[static_cast<std::size_t>(i)];
    if (match >= 0) objects.push_back(i);
    if (match == -1) background.push_back(i);
  }
  draw(objects, static_cast<std::int64_t>(static_cast<double>(most) * fraction), draws, image);
  draw(background, most - std::ssize(objects), draws, image);
  objects.insert(objects.end(), background.begin(), background.end());
  std::ranges::sort(objects);
  return objects;
}

std::vector<std::int64_t> clip_boxes(const Tensor& boxes, ImageSize size, float least) {
  std::vector<std::int64_t> large;
  for (std::int64_t k = 0; k < boxes.shape()[0]; ++k) {
    float* const box = boxes.data<float>() + 4 * k;
    for (std::int64_t side = 0; side < 4; ++side)
      box[side] = std::clamp(box[side], 0.0F, static_cast<float>(side % 2 == 0 ? size.width : size.height));
    if (box[2] - box[0] >= least && box[3] - box[1] >= least) large.push_back(k);
  }
  return large;
}

std::int64_t map_of_box(const float* box, float finest, float coarsest) {
  constexpr float usual_side = 224, usual_map = 4;
  const float side = std::sqrt((box[2] - box[0]) * (box[3] - box[1]));
  const float map = std::floor(usual_map + std::log2(side / usual_side) + 1e-6F);
  return static_cast<std::int64_t>(std::clamp(map, finest, coarsest) - finest);
}

void append_box(const Tensor& boxes, std::int64_t number, std::vector<float>& to) {
  const float* const box = boxes.data<const float>() + 4 * number;
  to.insert(to.end(), box, box + 4);
}

Tensor as_boxes(std::span<const float> sides) { return Tensor::from(sides, {std::ssize(sides) / 4, 4}); }

Tensor rows_of(std::span<const Tensor> boxes) {
  std::vector<float> all;
  for (const Tensor& one : boxes) all.insert(all.end(), one.data<const float>(), one.data<const float>() + one.count());
  return as_boxes(all);
}

}  // namespace lacuna
