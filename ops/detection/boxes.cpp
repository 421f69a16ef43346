#include "ops/detection/boxes.h"

#include "core/error.h"
#include "core/parallel.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace lacuna {
namespace {

void expect_boxes(const Tensor& boxes, std::string_view what) {
  expect((boxes.dtype() == DType::f32 || boxes.dtype() == DType::f64) && boxes.shape().rank() == 2 &&
             boxes.shape()[1] == 4 && boxes.device() == Device::cpu,
         "{}: expected f32 or f64 [K, 4] on the host, got {} {}", what, name_of(boxes.dtype()), boxes.shape());
}
void expect_alike(const Tensor& boxes, const Tensor& anchors, std::string_view what) {
  expect_boxes(boxes, what);
  expect_boxes(anchors, "anchors");
  expect(boxes.shape() == anchors.shape() && boxes.dtype() == anchors.dtype(),
         "{}: expected as many as anchors, {} in {}, got {} in {}", what, anchors.shape(), name_of(anchors.dtype()),
         boxes.shape(), name_of(boxes.dtype()));
}

template <class Real>
Real area_of(const Real* box) {
  return (box[2] - box[0]) * (box[3] - box[1]);
}
/// The intersection over union of two boxes [4].
template <class Real>
Real overlap_of(const Real* a, const Real* b) {
  const Real width = std::max(std::min(a[2], b[2]) - std::max(a[0], b[0]), Real{0});
  const Real height = std::max(std::min(a[3], b[3]) - std::max(a[1], b[1]), Real{0});
  const Real common = width * height;
  return common / (area_of(a) + area_of(b) - common);
}

/// Centre and sides of a box [4].
template <class Real>
struct CentredBox {
  Real x, y, width, height;
  explicit CentredBox(const Real* box)
      : x(box[0] + Real(0.5) * (box[2] - box[0])),
        y(box[1] + Real(0.5) * (box[3] - box[1])),
        width(box[2] - box[0]),
        height(box[3] - box[1]) {}
};

template <class Real>
std::vector<std::int64_t> matches_of(const Tensor& anchors, const Tensor& truth, const MatchRule& rule) {
  const std::int64_t count = anchors.shape()[0], objects = truth.shape()[0];
  std::vector<std::int64_t> matches(static_cast<std::size_t>(count), -1);
  const auto overlap = [&, a = anchors.data<const Real>(), t = truth.data<const Real>()](std::int64_t anchor,
                                                                                         std::int64_t object) {
    return overlap_of(t + 4 * object, a + 4 * anchor);
  };
  std::vector<Real> best(static_cast<std::size_t>(objects), 0);  // of each object
  parallel_for(rule.best_anchors ? objects : 0, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t object = begin; object < end; ++object)
      for (std::int64_t anchor = 0; anchor < count; ++anchor)
        best[static_cast<std::size_t>(object)] =
            std::max(best[static_cast<std::size_t>(object)], overlap(anchor, object));
  });
  parallel_for(count, 1 + 4096 / objects, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t anchor = begin; anchor < end; ++anchor) {
      Real largest = -1;
      std::int64_t own = 0;
      bool is_best = false;
      for (std::int64_t object = 0; object < objects; ++object) {
        const Real value = overlap(anchor, object);
        is_best |= rule.best_anchors && value > 0 && value == best[static_cast<std::size_t>(object)];
        if (value <= largest) continue;
        largest = value;
        own = object;
      }
      const auto of_overlap = static_cast<double>(largest);
      matches[static_cast<std::size_t>(anchor)] = is_best || of_overlap >= rule.object_from ? own
                                                  : of_overlap < rule.background_below      ? -1
                                                                                            : -2;
    }
  });
  for (std::int64_t object = 0; rule.claims_best && object < objects; ++object) {
    std::int64_t first = 0;
    for (std::int64_t anchor = 1; anchor < count; ++anchor)
      if (overlap(anchor, object) > overlap(first, object)) first = anchor;
    matches[static_cast<std::size_t>(first)] = object;
  }
  return matches;
}

template <class Real>
std::vector<std::int64_t> left_of(const Tensor& boxes, const Tensor& scores, const Tensor& classes, double threshold) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(boxes.shape()[0])), kept;
  std::iota(order.begin(), order.end(), 0);
  const auto* const score = scores.data<const Real>();
  std::ranges::stable_sort(order, std::greater(), [&](std::int64_t k) { return score[k]; });
  const auto* const label = classes.defined() ? classes.data<const std::int64_t>() : nullptr;
  const auto* const corners = boxes.data<const Real>();
  for (const std::int64_t k : order) {
    const bool is_taken = std::ranges::any_of(kept, [&](std::int64_t other) {
      return (label == nullptr || label[k] == label[other]) &&
             static_cast<double>(overlap_of(corners + 4 * other, corners + 4 * k)) > threshold;
    });
    if (!is_taken) kept.push_back(k);
  }
  return kept;
}

}  // namespace

std::vector<AnchorShapes> anchor_shapes(std::span<const std::int64_t> sizes, std::int64_t maps) {
  std::vector<AnchorShapes> shapes;
  const std::size_t of_map = sizes.size() / static_cast<std::size_t>(maps);
  for (std::size_t at = 0; at < sizes.size(); at += of_map) {
    const auto own = sizes.subspan(at, of_map);
    shapes.push_back({.sizes = {own.begin(), own.end()}, .ratios = {0.5, 1, 2}});
  }
  return shapes;
}

Tensor make_anchors(MapSize image, std::span<const MapSize> maps, std::span<const AnchorShapes> shapes, DType type) {
  expect(maps.size() == shapes.size(), "anchors: expected shapes of {} maps, got {}", maps.size(), shapes.size());
  std::int64_t count = 0;
  for (std::size_t m = 0; m < maps.size(); ++m)
    count += maps[m].height * maps[m].width * std::ssize(shapes[m].sizes) * std::ssize(shapes[m].ratios);
  Tensor anchors = Tensor::empty({count, 4}, DType::f32, Device::cpu);
  float* out = anchors.data<float>();  // whole numbers
  for (std::size_t m = 0; m < maps.size(); ++m) {
    std::vector<std::array<float, 2>> halves;  // width and height
    for (const double ratio : shapes[m].ratios)
      for (const double size : shapes[m].sizes) {
        const float high = std::sqrt(static_cast<float>(ratio)), wide = 1 / high;
        halves.push_back(
            {std::nearbyint(wide * static_cast<float>(size) / 2), std::nearbyint(high * static_cast<float>(size) / 2)});
      }
    const std::int64_t down = image.height / maps[m].height, across = image.width / maps[m].width;
    for (std::int64_t y = 0; y < maps[m].height; ++y)
      for (std::int64_t x = 0; x < maps[m].width; ++x)
        for (const auto& [width, height] : halves) {
          const auto left = static_cast<float>(x * across), top = static_cast<float>(y * down);
          for (const float side : {left - width, top - height, left + width, top + height}) *out++ = side;
        }
  }
  return anchors.to(type);
}

Tensor make_default_boxes(MapSize image, std::span<const MapSize> maps, double least, double most, DType type) {
  expect(maps.size() > 1, "default boxes: expected several maps, got {}", maps.size());
  std::int64_t count = 0;
  for (const MapSize& map : maps) count += map.height * map.width * default_boxes;
  Tensor boxes = Tensor::empty({count, 4}, type, Device::cpu);
  const auto scale_of = [&](std::size_t map) {
    if (map == maps.size()) return 1.0;
    return least + (most - least) * static_cast<double>(map) / static_cast<double>(maps.size() - 1);
  };
  const auto centre = [](std::int64_t place, std::int64_t places) {
    return (static_cast<float>(place) + 0.5F) / static_cast<float>(places);
  };
  with_compute_type(type, [&]<class Real>(Type<Real>) {
    Real* out = boxes.data<Real>();
    for (std::size_t m = 0; m < maps.size(); ++m) {
      const double scale = scale_of(m), between = std::sqrt(scale * scale_of(m + 1));
      std::vector<std::array<double, 2>> sides{{scale, scale}, {between, between}};  // width and height
      for (const double root : {std::sqrt(2.0), std::sqrt(3.0)}) {
        sides.push_back({scale * root, scale / root});
        sides.push_back({scale / root, scale * root});
      }
      for (std::int64_t y = 0; y < maps[m].height; ++y)
        for (std::int64_t x = 0; x < maps[m].width; ++x)
          for (const auto& [wide, high] : sides) {
            // torchvision rounds centres and sides to f32 in every type.
            const Real half_width = Real(0.5) * std::min(static_cast<float>(wide), 1.0F),
                       half_height = Real(0.5) * std::min(static_cast<float>(high), 1.0F),
                       across = centre(x, maps[m].width), down = centre(y, maps[m].height);
            *out++ = (across - half_width) * static_cast<Real>(image.width);
            *out++ = (down - half_height) * static_cast<Real>(image.height);
            *out++ = (across + half_width) * static_cast<Real>(image.width);
            *out++ = (down + half_height) * static_cast<Real>(image.height);
          }
    }
  });
  return boxes;
}

std::vector<std::int64_t> match_anchors(const Tensor& anchors, const Tensor& truth, const MatchRule& rule) {
  expect_boxes(anchors, "anchors");
  expect_boxes(truth, "true boxes");
  expect(anchors.dtype() == truth.dtype(), "match_anchors: expected true boxes in {}, got {}", name_of(anchors.dtype()),
         name_of(truth.dtype()));
  if (truth.shape()[0] == 0) return std::vector<std::int64_t>(static_cast<std::size_t>(anchors.shape()[0]), -1);
  return with_compute_type(anchors.dtype(),
                           [&]<class Real>(Type<Real>) { return matches_of<Real>(anchors, truth, rule); });
}

Tensor BoxCoding::encode(const Tensor& boxes, const Tensor& anchors) const {
  expect_alike(boxes, anchors, "boxes");
  Tensor codes = Tensor::empty(boxes.shape(), boxes.dtype(), Device::cpu);
  with_compute_type(boxes.dtype(), [&]<class Real>(Type<Real>) {
    const std::array by{Real(weights[0]), Real(weights[1]), Real(weights[2]), Real(weights[3])};
    Real* out = codes.data<Real>();
    for (std::int64_t k = 0; k < boxes.shape()[0]; ++k) {
      const CentredBox<Real> box(boxes.data<const Real>() + 4 * k), anchor(anchors.data<const Real>() + 4 * k);
      *out++ = by[0] * (box.x - anchor.x) / anchor.width;
      *out++ = by[1] * (box.y - anchor.y) / anchor.height;
      *out++ = by[2] * std::log(box.width / anchor.width);
      *out++ = by[3] * std::log(box.height / anchor.height);
    }
  });
  return codes;
}

Tensor BoxCoding::decode(const Tensor& codes, const Tensor& anchors) const {
  expect_alike(codes, anchors, "codes");
  Tensor boxes = Tensor::empty(codes.shape(), codes.dtype(), Device::cpu);
  with_compute_type(codes.dtype(), [&]<class Real>(Type<Real>) {
    const std::array by{Real(weights[0]), Real(weights[1]), Real(weights[2]), Real(weights[3])};
    const auto most = std::log(Real(1000) / 16), half = Real(0.5);
    Real* out = boxes.data<Real>();
    for (std::int64_t k = 0; k < codes.shape()[0]; ++k) {
      const Real* const code = codes.data<const Real>() + 4 * k;
      const CentredBox<Real> anchor(anchors.data<const Real>() + 4 * k);
      const Real x = code[0] / by[0] * anchor.width + anchor.x, y = code[1] / by[1] * anchor.height + anchor.y,
                 width = std::exp(std::min(code[2] / by[2], most)) * anchor.width,
                 height = std::exp(std::min(code[3] / by[3], most)) * anchor.height;
      for (const Real side : {x - half * width, y - half * height, x + half * width, y + half * height}) *out++ = side;
    }
  });
  return boxes;
}

std::vector<std::int64_t> suppress(const Tensor& boxes, const Tensor& scores, const Tensor& classes, double threshold) {
  expect_boxes(boxes, "boxes");
  const std::int64_t count = boxes.shape()[0];
  expect(scores.shape() == Shape{count} && scores.dtype() == boxes.dtype() &&
             (!classes.defined() || classes.shape() == Shape{count}),
         "suppress: expected scores and classes of {} boxes in {}, got {} in {} and {}", count, name_of(boxes.dtype()),
         scores.shape(), name_of(scores.dtype()), classes.defined() ? classes.shape() : Shape{});
  return with_compute_type(boxes.dtype(),
                           [&]<class Real>(Type<Real>) { return left_of<Real>(boxes, scores, classes, threshold); });
}

}  // namespace lacuna
