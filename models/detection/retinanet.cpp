// RetinaNet (Lin et al. 2017) on a feature pyramid, as torchvision has its first version: the same names, shapes and
// initial distributions.
#include "core/math.h"
#include "models/detection/pyramid_detector.h"
#include "models/feature_pyramid.h"
#include "models/registry.h"
#include "nn/functional.h"
#include "nn/init.h"
#include "ops/detection/box_losses.h"
#include "ops/detection/boxes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

namespace lacuna {
namespace {

struct RetinaNetOptions : PyramidDetectorOptions {
  RetinaNetOptions() {
    detections_per_img = 300;
    for (std::int64_t size = 32; size <= 512; size *= 2)
      for (const double octaves : {0.0, 1.0 / 3, 2.0 / 3})
        anchor_sizes.push_back(static_cast<std::int64_t>(static_cast<double>(size) * std::exp2(octaves)));
  }
  static Fields fields() { return rows_of_base<RetinaNetOptions, PyramidDetectorOptions>(); }
  void check(HyperProblems& problems) const { PyramidDetectorOptions::check(read_maps, problems); }

  static inline const std::vector<std::int64_t> read_maps{-3, -2, -1};
};

nn::Conv2dOptions window_of_3(nn::WeightInit init, std::int64_t stride = 1) {
  return {.kernel = 3, .stride = stride, .padding = 1, .init = std::move(init)};
}
nn::WeightInit small_normal(double bias = 0) { return {init::normal(0.01), init::constant(bias)}; }

/// Four convolutions with ReLUs and one to the outputs of each anchor, for every map.
class AnchorHead final : public Module {
 public:
  AnchorHead(Module& parent, std::string_view name, std::string_view last, std::int64_t channels, std::int64_t out,
             double bias)
      : Module(parent, name) {
    constexpr int depth = 4;
    for (int i = 0; i < depth; ++i)
      layers_.push_back(std::make_unique<nn::Conv2d>(*this, fmt::format("conv.{}.0", i), channels, channels,
                                                     window_of_3(small_normal())));
    last_ = std::make_unique<nn::Conv2d>(*this, last, channels, out, window_of_3(small_normal(bias)));
  }

  /// [N, h, w, channels] to [N, h · w · anchors, width].
  Variable forward(Variable x, std::int64_t width) const {
    const Scope scope(*this);
    for (const std::unique_ptr<nn::Conv2d>& layer : layers_) x = relu(layer->forward(std::move(x)));
    x = last_->forward(std::move(x));
    const std::int64_t samples = x.shape()[0], count = x.shape().count() / samples / width;
    return std::move(x).reshape({samples, count, width});
  }

 private:
  std::vector<std::unique_ptr<nn::Conv2d>> layers_;
  std::unique_ptr<nn::Conv2d> last_;
};

/// A third and a fourth coarser map of the last one (LastLevelP6P7).
class CoarserMaps final : public Module {
 public:
  CoarserMaps(Module& parent, std::string_view name, std::int64_t channels)
      : Module(parent, name),
        p6_(*this, "p6", channels, channels, window_of_3(init_of(channels), 2)),
        p7_(*this, "p7", channels, channels, window_of_3(init_of(channels), 2)) {}
  void add_to(std::vector<Variable>& maps) const {
    const Scope scope(*this);
    maps.push_back(p6_.forward(maps.back()));
    maps.push_back(p7_.forward(relu(maps.back())));
  }

 private:
  static nn::WeightInit init_of(std::int64_t channels) {
    return {torchvision_pyramid.weight(9 * channels, 9 * channels), init::constant(0)};
  }
  nn::Conv2d p6_, p7_;
};

class RetinaNet final : public PyramidDetector {
 public:
  RetinaNet(const ModelContext& context, const RetinaNetOptions& options)
      : PyramidDetector(context, options, RetinaNetOptions::read_maps, {"head.classification_head.cls_logits"}),
        options_(options),
        pyramid_(*this, "backbone.fpn", torchvision_pyramid, shapes(), options.fpn_channels),
        coarser_(*this, "backbone.fpn.extra_blocks", options.fpn_channels),
        classes_(*this, "head.classification_head", "cls_logits", options.fpn_channels,
                 anchors_of_place() * logits_of_anchor(), -std::log(99.0)),
        boxes_(*this, "head.regression_head", "bbox_reg", options.fpn_channels, anchors_of_place() * 4, 0) {}

 private:
  /// The heads' outputs for a map's anchors.
  struct Level {
    Variable logits, codes;   // [N, anchors, classes + 1], [N, anchors, 4]
    std::int64_t first, end;  // of the anchors of all maps
  };

  std::int64_t anchors_of_place() const { return options_.anchors_of_place(); }
  std::int64_t logits_of_anchor() const { return num_classes() + 1; }

  Outputs detect(Variable images, const std::vector<TrueObjects>& truth) override {
    const ImageSize size{images.shape()[1], images.shape()[2]};
    std::vector<Variable> maps = pyramid_.forward(PyramidDetector::maps(std::move(images)));
    coarser_.add_to(maps);
    std::vector<MapSize> sizes;
    std::vector<Level> levels;
    std::int64_t first = 0;
    for (Variable& map : maps) {
      sizes.push_back({map.shape()[1], map.shape()[2]});
      const std::int64_t end = first + map.shape()[1] * map.shape()[2] * anchors_of_place();
      Variable logits = classes_.forward(map, logits_of_anchor());
      levels.push_back({std::move(logits), boxes_.forward(std::move(map), 4), first, end});
      first = end;
    }
    const Tensor anchors =
        make_anchors({size.height, size.width}, sizes,
                     anchor_shapes(options_.anchor_sizes, RetinaNetOptions::pyramid_maps), box_type());
    Outputs outputs;
    if (!truth.empty()) add_losses(levels, anchors, truth, outputs);
    if (!training()) set_found(find(levels, anchors, size), outputs);
    for (std::size_t i = 0; i < levels.size(); ++i) {
      outputs.set(fmt::format("cls_logits.{}", i), std::move(levels[i].logits));
      outputs.set(fmt::format("bbox_regression.{}", i), std::move(levels[i].codes));
    }
    outputs.set("anchors", Variable(anchors));
    return outputs;
  }

  /// Sums over the maps: each keeps its own logits, and none is copied to stand beside the others.
  void add_losses(const std::vector<Level>& levels, const Tensor& anchors, const std::vector<TrueObjects>& truth,
                  Outputs& outputs) const {
    const auto images = std::ssize(truth);
    std::vector<std::vector<std::int64_t>> matches;
    std::vector<double> weights;  // of each image
    for (const TrueObjects& objects : truth) {
      matches.push_back(match_anchors(anchors, objects.boxes, {.background_below = 0.4, .object_from = 0.5}));
      const auto found = std::ranges::count_if(matches.back(), [](std::int64_t match) { return match >= 0; });
      weights.push_back(1 / static_cast<double>(std::max<std::ptrdiff_t>(found, 1) * images));
    }
    Variable classification, regression;
    for (const Level& level : levels) {
      Variable own = class_loss(level, matches, weights, truth);
      classification = classification.defined() ? std::move(classification) + std::move(own) : std::move(own);
      own = box_loss(level, matches, weights, truth, anchors);
      regression = regression.defined() ? std::move(regression) + std::move(own) : std::move(own);
    }
    outputs.set("loss_classification", std::move(classification));
    outputs.set("loss_bbox_regression", std::move(regression));
  }

  Variable class_loss(const Level& level, const std::vector<std::vector<std::int64_t>>& matches,
                      const std::vector<double>& weights, const std::vector<TrueObjects>& truth) const {
    std::vector<std::int64_t> labels;
    std::vector<double> of_rows;
    for (std::size_t n = 0; n < truth.size(); ++n)
      for (std::int64_t a = level.first; a < level.end; ++a) {
        const std::int64_t match = matches[n][static_cast<std::size_t>(a)];
        labels.push_back(match < 0 ? match : truth[n].labels[static_cast<std::size_t>(match)] + 1);
        of_rows.push_back(weights[n]);
      }
    const auto rows = std::ssize(labels);
    return apply(FocalLoss{}, level.logits, constant(Tensor::from(std::span<const std::int64_t>(labels), {rows})),
                 constant(Tensor::from(std::span<const double>(of_rows), {rows}, box_type())));
  }

  Variable box_loss(const Level& level, const std::vector<std::vector<std::int64_t>>& matches,
                    const std::vector<double>& weights, const std::vector<TrueObjects>& truth,
                    const Tensor& anchors) const {
    std::vector<std::int64_t> rows;
    std::vector<double> of_rows;
    RowList boxes(box_type(), 4), own(box_type(), 4);  // of each row: the true box and the anchor
    const std::int64_t count = level.end - level.first;
    for (std::size_t n = 0; n < truth.size(); ++n)
      for (std::int64_t a = level.first; a < level.end; ++a) {
        const std::int64_t match = matches[n][static_cast<std::size_t>(a)];
        if (match < 0) continue;
        rows.push_back(static_cast<std::int64_t>(n) * count + a - level.first);
        of_rows.push_back(weights[n]);
        boxes.add(truth[n].boxes, match);
        own.add(anchors, a);
      }
    const auto found = std::ssize(rows);
    return apply(RowSmoothL1{.shape = level.codes.shape(), .beta = 0}, level.codes,
                 constant(Tensor::from(std::span<const std::int64_t>(rows), {found})),
                 constant(BoxCoding{}.encode(boxes.tensor(), own.tensor())),
                 constant(Tensor::from(std::span<const double>(of_rows), {found}, box_type())));
  }

  std::vector<FoundObjects> find(const std::vector<Level>& levels, const Tensor& anchors, ImageSize size) const {
    const std::int64_t images = levels.front().logits.shape()[0], width = logits_of_anchor();
    struct Candidates {
      RowList codes, anchors, scores;
      std::vector<std::int64_t> labels{};
    };
    std::vector<Candidates> all(static_cast<std::size_t>(images),
                                {RowList(box_type(), 4), RowList(box_type(), 4), RowList(box_type(), 1)});
    for (const Level& level : levels) {
      if (context().device == Device::meta) break;
      const Tensor scores = level.logits.tensor().to(Device::cpu).to(box_type()).clone(),
                   codes = level.codes.tensor().to(Device::cpu).to(box_type());
      const std::int64_t count = level.end - level.first;
      with_compute_type(box_type(), [&]<class Real>(Type<Real>) {
        // A score that is too low is not worth its exponential.
        const auto least = static_cast<Real>(std::log(options_.score_thresh / (1 - options_.score_thresh)) - 0.01);
        for (std::int64_t i = 0; i < scores.count(); ++i) {
          Real& score = scores.data<Real>()[i];
          score = score < least ? 0 : math::sigmoid(score);
        }
      });
      for (std::int64_t n = 0; n < images; ++n) {
        Candidates& candidates = all[static_cast<std::size_t>(n)];
        const Elements own{n * count * width, count * width};
        for (const std::int64_t i : best_scores(scores, own, options_.score_thresh, options_.topk_candidates)) {
          const std::int64_t anchor = i / width;
          candidates.scores.add(scores, own.first + i);
          candidates.labels.push_back(i % width - 1);
          candidates.codes.add(codes, n * count + anchor);
          candidates.anchors.add(anchors, level.first + anchor);
        }
      }
    }
    std::vector<FoundObjects> found;
    for (const Candidates& one : all)
      found.push_back(
          best_objects({BoxCoding{}.decode(one.codes.tensor(), one.anchors.tensor()), one.scores.tensor(), one.labels},
                       size, options_.nms_thresh, options_.detections_per_img));
    return found;
  }

  RetinaNetOptions options_;
  FeaturePyramid pyramid_;
  CoarserMaps coarser_;
  AnchorHead classes_, boxes_;
};

const RegisterFamily<RetinaNet, RetinaNetOptions> retinanet("retinanet", "shape_boxes", "", "detection");

const RegisterPreset retinanet_presets[] = {
    {"retinanet_resnet50_fpn",
     "retinanet",
     {{"backbone", "resnet50"}, {"num_classes", 90}, {"image_size", 800}, {"frozen_norm", true}}},
};

}  // namespace
}  // namespace lacuna
