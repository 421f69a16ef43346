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
  constexpr double least_side = 1e-3;
  const DType type = maps.front().anchors.dtype();
  RowList codes(type, 4), anchors(type, 4), logits(type, 1);
  std::vector<std::int64_t> of_maps;
  for (std::size_t m = 0; m < maps.size(); ++m) {
    const std::int64_t count = maps[m].anchors.shape()[0], first = image * count;
    for (const std::int64_t a :
         best_scores(maps[m].logits, {first, count}, -std::numeric_limits<double>::infinity(), rule.of_map)) {
      codes.add(maps[m].codes, first + a);
      anchors.add(maps[m].anchors, a);
      logits.add(maps[m].logits, first + a);
      of_maps.push_back(static_cast<std::int64_t>(m));
    }
  }
  const Tensor boxes = BoxCoding{}.decode(codes.tensor(), anchors.tensor()), scores = logits.tensor();
  with_compute_type(type, [&]<class Real>(Type<Real>) {
    for (std::int64_t k = 0; k < scores.count(); ++k) scores.data<Real>()[k] = math::sigmoid(scores.data<Real>()[k]);
  });
  RowList large(type, 4), large_scores(type, 1), left(type, 4);
  std::vector<std::int64_t> large_maps;
  for (const std::int64_t k : clip_boxes(boxes, size, least_side)) {
    large.add(boxes, k);
    large_scores.add(scores, k);
    large_maps.push_back(of_maps[static_cast<std::size_t>(k)]);
  }
  const Tensor candidates = large.tensor();
  for (const std::int64_t k :
       suppress(candidates, large_scores.tensor(),
                Tensor::from(std::span<const std::int64_t>(large_maps), {std::ssize(large_maps)}), rule.nms_thresh)) {
    if (left.count() == rule.of_image) break;
    left.add(candidates, k);
  }
  if (left.count() > 0) return left.tensor();
  const double whole[]{0, 0, static_cast<double>(size.width), static_cast<double>(size.height)};
  return Tensor::from(std::span<const double>(whole), {1, 4}, type);
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

std::vector<std::int64_t> clip_boxes(const Tensor& boxes, ImageSize size, double least) {
  std::vector<std::int64_t> large;
  with_compute_type(boxes.dtype(), [&]<class Real>(Type<Real>) {
    const auto shortest = static_cast<Real>(least);
    for (std::int64_t k = 0; k < boxes.shape()[0]; ++k) {
      Real* const box = boxes.data<Real>() + 4 * k;
      for (std::int64_t side = 0; side < 4; ++side)
        box[side] = std::clamp(box[side], Real{0}, static_cast<Real>(side % 2 == 0 ? size.width : size.height));
      if (box[2] - box[0] >= shortest && box[3] - box[1] >= shortest) large.push_back(k);
    }
  });
  return large;
}

std::int64_t map_of_box(const Tensor& boxes, std::int64_t number, double finest, double coarsest) {
  return with_compute_type(boxes.dtype(), [&]<class Real>(Type<Real>) {
    constexpr Real usual_side = 224, usual_map = 4;
    const Real* const box = boxes.data<const Real>() + 4 * number;
    const Real side = std::sqrt((box[2] - box[0]) * (box[3] - box[1]));
    const Real map = std::floor(usual_map + std::log2(side / usual_side) + Real(1e-6));
    return static_cast<std::int64_t>(std::clamp(map, static_cast<Real>(finest), static_cast<Real>(coarsest)) -
                                     static_cast<Real>(finest));
  });
}

Tensor rows_of(std::span<const Tensor> boxes) {
  RowList all(boxes.front().dtype(), 4);
  for (const Tensor& one : boxes)
    for (std::int64_t k = 0; k < one.shape()[0]; ++k) all.add(one, k);
  return all.tensor();
}

}  // namespace lacuna
