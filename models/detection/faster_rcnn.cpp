// Faster R-CNN (Ren et al. 2015) on a feature pyramid, as torchvision has its first version: the same names, shapes and
// initial distributions.
#include "core/math.h"
#include "models/detection/proposals.h"
#include "models/detection/pyramid_detector.h"
#include "models/feature_pyramid.h"
#include "models/registry.h"
#include "nn/functional.h"
#include "nn/init.h"
#include "ops/detection/box_losses.h"
#include "ops/detection/boxes.h"
#include "ops/detection/roi_align.h"
#include "ops/shapes/embedding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

namespace lacuna {
namespace {

constexpr double smooth_l1_beta = 1.0 / 9;
constexpr BoxCoding proposal_coding{}, object_coding{{10, 10, 5, 5}};

struct FasterRcnnOptions : PyramidDetectorOptions {
  static inline const std::vector<std::int64_t> read_maps{-4, -3, -2, -1};
  std::int64_t roi_size = 7, representation = 1024;
  std::int64_t rpn_pre_nms_top_n_train = 2000, rpn_post_nms_top_n_train = 2000, rpn_post_nms_top_n_test = 1000;
  double rpn_nms_thresh = 0.7;
  std::int64_t rpn_batch_size_per_image = 256, box_batch_size_per_image = 512;
  double rpn_positive_fraction = 0.5, box_positive_fraction = 0.25;

  FasterRcnnOptions() { anchor_sizes = {32, 64, 128, 256, 512}; }
  static Fields fields() {
    using F = FasterRcnnOptions;
    return rows_of_base<F, PyramidDetectorOptions>() +
           Fields{field("roi_size", &F::roi_size, between(1, 64), "bins of a proposal along a side"),
                  field("representation", &F::representation, extent_range, "width of the box head"),
                  field("rpn_pre_nms_top_n_train", &F::rpn_pre_nms_top_n_train, count_range, fits_weights,
                        "the same as topk_candidates in training"),
                  field("rpn_post_nms_top_n_train", &F::rpn_post_nms_top_n_train, count_range, fits_weights,
                        "proposals of an image in training at most"),
                  field("rpn_post_nms_top_n_test", &F::rpn_post_nms_top_n_test, count_range, fits_weights,
                        "proposals of an image in evaluation at most"),
                  field("rpn_nms_thresh", &F::rpn_nms_thresh, up_to(1), fits_weights,
                        "intersection over union above which the better of two boxes of a map removes the other"),
                  field("rpn_batch_size_per_image", &F::rpn_batch_size_per_image, count_range, fits_weights,
                        "anchors of an image drawn for the losses"),
                  field("rpn_positive_fraction", &F::rpn_positive_fraction, up_to(1), fits_weights,
                        "largest part of these anchors that has an object"),
                  field("box_batch_size_per_image", &F::box_batch_size_per_image, count_range, fits_weights,
                        "proposals of an image drawn for the losses"),
                  field("box_positive_fraction", &F::box_positive_fraction, up_to(1), fits_weights,
                        "largest part of these proposals that has an object")};
  }
  void check(HyperProblems& problems) const { PyramidDetectorOptions::check(read_maps, problems); }
};

/// The region proposal network's head, for every map.
class ProposalHead final : public Module {
 public:
  ProposalHead(Module& parent, std::string_view name, std::int64_t channels, std::int64_t anchors)
      : Module(parent, name),
        conv_(*this, "conv.0.0", channels, channels, {.kernel = 3, .padding = 1, .init = small_normal()}),
        logits_(*this, "cls_logits", channels, anchors, {.init = small_normal()}),
        codes_(*this, "bbox_pred", channels, 4 * anchors, {.init = small_normal()}) {}

  struct Result {
    Variable logits, codes;  // [N, h, w, anchors], [N, h, w, 4 · anchors]
  };
  Result forward(Variable map) const {
    const Scope scope(*this);
    const Variable x = relu(conv_.forward(std::move(map)));
    return {logits_.forward(x), codes_.forward(x)};
  }

 private:
  static nn::WeightInit small_normal() { return {init::normal(0.01), init::constant(0)}; }
  nn::Conv2d conv_, logits_, codes_;
};

/// Class scores of each proposal, and the place of its object, by class.
class BoxHead final : public Module {
 public:
  BoxHead(Module& parent, std::string_view name, std::int64_t in, std::int64_t width, std::int64_t classes)
      : Module(parent, name),
        fc6_(*this, "box_head.fc6", in, width),
        fc7_(*this, "box_head.fc7", width, width),
        classes_(*this, "box_predictor.cls_score", width, classes),
        boxes_(*this, "box_predictor.bbox_pred", width, 4 * classes) {}

  struct Result {
    Variable logits, codes;  // [R, classes], [R, 4 · classes]
  };
  Result forward(Variable x) const {
    const Scope scope(*this);
    const std::int64_t count = x.shape()[0];
    // The proposals are rows of one sample, since policies keep one vector of a sample as it is.
    x = fc6_.forward(std::move(x)).reshape({1, count, fc6_.out()});
    x = relu(fc7_.forward(relu(std::move(x))));
    return {classes_.forward(x).reshape({count, classes_.out()}), boxes_.forward(x).reshape({count, boxes_.out()})};
  }

 private:
  nn::Linear fc6_, fc7_, classes_, boxes_;
};

class FasterRcnn final : public PyramidDetector {
 public:
  FasterRcnn(const ModelContext& context, const FasterRcnnOptions& options)
      : PyramidDetector(context, options, FasterRcnnOptions::read_maps,
                        {"roi_heads.box_predictor.cls_score", "roi_heads.box_predictor.bbox_pred"}),
        options_(options),
        pyramid_(*this, "backbone.fpn", torchvision_pyramid, shapes(), options.fpn_channels),
        proposal_head_(*this, "rpn.head", options.fpn_channels, anchors_of_place()),
        box_head_(*this, "roi_heads", options.fpn_channels * options.roi_size * options.roi_size,
                  options.representation, outputs_of_class()) {}

 private:
  static constexpr std::int64_t pyramid_maps = FasterRcnnOptions::pyramid_maps;
  /// The proposal head's outputs for a map's anchors.
  struct Level {
    Variable logits, codes;
    std::int64_t first, end;  // of the anchors of all maps
  };
  /// Proposals that losses are computed of.
  struct Samples {
    RowList true_boxes, boxes_of_objects;            // [rows, 4] each
    std::vector<Tensor> boxes{};                     // [R, 4] of each image
    std::vector<std::int64_t> labels{}, offsets{0};  // of all images, 0: background; where each image begins
    std::vector<std::int64_t> rows{};                // of bbox_pred's outputs [ΣR · classes, 4] for the true boxes
  };

  std::int64_t anchors_of_place() const { return options_.anchors_of_place(); }
  std::int64_t outputs_of_class() const { return num_classes() + 1; }

  Outputs detect(Variable images, const std::vector<TrueObjects>& truth) override {
    const ImageSize size{images.shape()[1], images.shape()[2]};
    const std::int64_t count = images.shape()[0];
    const std::vector<Variable> maps = pyramid_.forward(PyramidDetector::maps(std::move(images)));
    std::vector<Level> levels;
    std::vector<MapSize> sizes;
    for (std::size_t i = 0; i < pyramid_maps; ++i) {
      const Variable map = i < maps.size() ? maps[i] : max_pool2d(maps.back(), {.kernel = 1, .stride = 2});
      sizes.push_back({map.shape()[1], map.shape()[2]});
      auto [logits, codes] = proposal_head_.forward(map);
      const std::int64_t first = levels.empty() ? 0 : levels.back().end;
      levels.push_back({std::move(logits), std::move(codes), first,
                        first + sizes.back().height * sizes.back().width * anchors_of_place()});
    }
    const Tensor anchors =
        make_anchors({size.height, size.width}, sizes, anchor_shapes(options_.anchor_sizes, pyramid_maps), box_type());
    const std::vector<Tensor> proposals = propose(levels, anchors, size, count);
    Outputs outputs;
    if (!truth.empty()) {
      add_proposal_losses(levels, anchors, truth, outputs);
      const Samples samples = draw_samples(proposals, truth);
      BoxHead::Result said = look_at(samples.boxes, maps, size);
      add_box_losses(said, samples, outputs);
      if (training()) {
        outputs.set("proposals", Variable(rows_of(samples.boxes)));
        outputs.set("proposal_offsets", whole(samples.offsets));
        outputs.set("proposal_labels", whole(samples.labels));
        outputs.set("cls_logits", std::move(said.logits));
        outputs.set("bbox_regression", std::move(said.codes));
      }
    }
    if (!training()) set_found(find(look_at(proposals, maps, size), proposals, size), outputs);
    for (std::size_t i = 0; i < levels.size(); ++i) {
      outputs.set(fmt::format("rpn_logits.{}", i), std::move(levels[i].logits));
      outputs.set(fmt::format("rpn_deltas.{}", i), std::move(levels[i].codes));
    }
    outputs.set("anchors", Variable(anchors));
    return outputs;
  }

  /// The proposals of each image, [P, 4] with P > 0. No gradient goes through them.
  std::vector<Tensor> propose(const std::vector<Level>& levels, const Tensor& anchors, ImageSize size,
                              std::int64_t images) const {
    const ProposalRule rule{
        .of_map = training() ? options_.rpn_pre_nms_top_n_train : options_.topk_candidates,
        .of_image = training() ? options_.rpn_post_nms_top_n_train : options_.rpn_post_nms_top_n_test,
        .nms_thresh = options_.rpn_nms_thresh};
    if (context().device == Device::meta) {
      std::int64_t candidates = 0;
      for (const Level& level : levels) candidates += std::min(rule.of_map, level.end - level.first);
      const Tensor boxes = Tensor::zeros({std::min(candidates, rule.of_image), 4}, box_type(), Device::cpu);
      return std::vector<Tensor>(static_cast<std::size_t>(images), boxes);
    }
    std::vector<MapProposals> maps;
    for (const Level& level : levels)
      maps.push_back({.logits = on_host(level.logits),
                      .codes = on_host(level.codes),
                      .anchors = anchors.leading(level.first, level.end)});
    std::vector<Tensor> all;
    for (std::int64_t n = 0; n < images; ++n) all.push_back(best_proposals(maps, n, size, rule));
    return all;
  }

  void add_proposal_losses(const std::vector<Level>& levels, const Tensor& anchors,
                           const std::vector<TrueObjects>& truth, Outputs& outputs) const {
    const RandomStream draws = random_stream("rpn.fg_bg_sampler");
    std::vector<std::vector<std::int64_t>> matches;  // -2: not drawn
    std::int64_t drawn = 0;
    for (const TrueObjects& objects : truth) {
      const std::vector<std::int64_t> found =
          match_anchors(anchors, objects.boxes, {.background_below = 0.3, .object_from = 0.7});
      std::vector<std::int64_t>& own = matches.emplace_back(found.size(), FocalLoss::left_out);
      for (const std::int64_t a :
           draw_balanced(found, options_.rpn_batch_size_per_image, options_.rpn_positive_fraction, draws,
                         static_cast<std::uint64_t>(std::ssize(matches) - 1))) {
        own[static_cast<std::size_t>(a)] = found[static_cast<std::size_t>(a)];
        ++drawn;
      }
    }
    const double weight = 1 / static_cast<double>(std::max<std::int64_t>(drawn, 1));
    Variable objectness, regression;
    for (const Level& level : levels) {
      const std::int64_t count = level.end - level.first;
      std::vector<std::int64_t> drawn_rows, labels, rows;
      RowList boxes(box_type(), 4), own(box_type(), 4);  // of each of `rows`: the true box and the anchor
      for (std::size_t n = 0; n < truth.size(); ++n)
        for (std::int64_t a = level.first; a < level.end; ++a) {
          const std::int64_t match = matches[n][static_cast<std::size_t>(a)],
                             row = static_cast<std::int64_t>(n) * count + a - level.first;
          if (match == FocalLoss::left_out) continue;
          drawn_rows.push_back(row);
          labels.push_back(std::min<std::int64_t>(match, 0));
          if (match < 0) continue;
          rows.push_back(row);
          boxes.add(truth[n].boxes, match);
          own.add(anchors, a);
        }
      Variable loss = objectness_loss(level.logits, std::move(drawn_rows), std::move(labels), weight);
      objectness = objectness.defined() ? std::move(objectness) + std::move(loss) : std::move(loss);
      loss = box_loss(level.codes.reshape({level.codes.shape().count() / 4, 4}), rows,
                      proposal_coding.encode(boxes.tensor(), own.tensor()), weight);
      regression = regression.defined() ? std::move(regression) + std::move(loss) : std::move(loss);
    }
    outputs.set("loss_objectness", std::move(objectness));
    outputs.set("loss_rpn_box_reg", std::move(regression));
  }

  /// The weighted sum of the binary cross entropies of the drawn anchors, whose logits alone are read.
  Variable objectness_loss(const Variable& logits, std::vector<std::int64_t> rows, std::vector<std::int64_t> labels,
                           double weight) const {
    if (rows.empty()) {  // a loss of 0 needs a row too
      rows.push_back(0);
      labels.push_back(FocalLoss::left_out);
    }
    const auto count = std::ssize(rows);
    const Variable all = logits.reshape({1, logits.shape().count(), 1});
    Variable drawn =
        apply(Embedding{.shape = all.shape(), .dtype = all.dtype()}, all, whole(rows), Variable()).reshape({count, 1});
    // Binary cross entropy is twice the focal loss that weights classes alike and all probabilities too.
    return apply(FocalLoss{.alpha = 0.5, .gamma = 0}, std::move(drawn), whole(labels), weights(count, 2 * weight));
  }

  /// Proposals and true boxes, balanced.
  Samples draw_samples(const std::vector<Tensor>& proposals, const std::vector<TrueObjects>& truth) const {
    const RandomStream draws = random_stream("roi_heads.fg_bg_sampler");
    Samples samples{RowList(box_type(), 4), RowList(box_type(), 4)};
    for (std::size_t n = 0; n < truth.size(); ++n) {
      const Tensor all = rows_of(std::array{proposals[n], truth[n].boxes});
      const std::vector<std::int64_t> matches =
          match_anchors(all, truth[n].boxes, {.background_below = 0.5, .object_from = 0.5, .best_anchors = false});
      RowList boxes(box_type(), 4);
      for (const std::int64_t p :
           draw_balanced(matches, options_.box_batch_size_per_image, options_.box_positive_fraction, draws, n)) {
        boxes.add(all, p);
        const std::int64_t match = matches[static_cast<std::size_t>(p)];
        const std::int64_t label = match < 0 ? 0 : truth[n].labels[static_cast<std::size_t>(match)] + 1;
        if (match >= 0) {
          samples.rows.push_back(std::ssize(samples.labels) * outputs_of_class() + label);
          samples.true_boxes.add(truth[n].boxes, match);
          samples.boxes_of_objects.add(all, p);
        }
        samples.labels.push_back(label);
      }
      samples.boxes.push_back(boxes.tensor());
      samples.offsets.push_back(std::ssize(samples.labels));
    }
    return samples;
  }

  /// The box head's outputs for boxes of each image.
  BoxHead::Result look_at(const std::vector<Tensor>& boxes, const std::vector<Variable>& maps, ImageSize size) const {
    RoiAlign op{.bins = options_.roi_size};
    for (const Variable& map : maps) {
      op.shapes.push_back(map.shape());
      op.scales.push_back(
          std::exp2(std::round(std::log2(static_cast<double>(map.shape()[1]) / static_cast<double>(size.height)))));
    }
    const double finest = -std::log2(op.scales.front()), coarsest = -std::log2(op.scales.back());
    std::vector<std::int64_t> places;  // [R, 2]: map and image
    for (std::size_t n = 0; n < boxes.size(); ++n)
      for (std::int64_t r = 0; r < boxes[n].shape()[0]; ++r) {
        places.push_back(map_of_box(boxes[n], r, finest, coarsest));
        places.push_back(static_cast<std::int64_t>(n));
      }
    const Tensor all = rows_of(boxes);
    std::vector<Variable> inputs{constant(all), whole(places).reshape({all.shape()[0], 2})};
    inputs.insert(inputs.end(), maps.begin(), maps.end());
    return box_head_.forward(record(std::make_shared<const Bound<RoiAlign>>(std::move(op)), inputs).outputs.front());
  }

  void add_box_losses(const BoxHead::Result& said, const Samples& samples, Outputs& outputs) const {
    const auto count = std::ssize(samples.labels);
    outputs.set("loss_classifier", cross_entropy(said.logits, whole(samples.labels)));
    outputs.set("loss_box_reg",
                box_loss(said.codes.reshape({count * outputs_of_class(), 4}), samples.rows,
                         object_coding.encode(samples.true_boxes.tensor(), samples.boxes_of_objects.tensor()),
                         1 / static_cast<double>(count)));
  }

  Variable box_loss(Variable codes, const std::vector<std::int64_t>& rows, const Tensor& targets, double weight) const {
    const Shape shape = codes.shape();
    return apply(RowSmoothL1{.shape = shape, .beta = smooth_l1_beta}, std::move(codes), whole(rows), constant(targets),
                 weights(std::ssize(rows), weight));
  }

  std::vector<FoundObjects> find(const BoxHead::Result& said, const std::vector<Tensor>& proposals,
                                 ImageSize size) const {
    constexpr double least_side = 1e-2;
    std::vector<FoundObjects> found(proposals.size(), {Tensor::empty({0, 4}, box_type(), Device::cpu),
                                                       Tensor::empty({0}, box_type(), Device::cpu)});
    if (context().device == Device::meta) return found;
    const Tensor scores = on_host(softmax(said.logits.detach())), codes = on_host(said.codes);
    const std::int64_t width = outputs_of_class();
    std::int64_t row = 0;
    for (std::size_t n = 0; n < proposals.size(); ++n) {
      RowList own(box_type(), 4), from(box_type(), 4), kept(box_type(), 1);  // codes and proposals, and scores
      std::vector<std::int64_t> labels;
      for (std::int64_t p = 0; p < proposals[n].shape()[0]; ++p, row += width)
        for (const std::int64_t k : best_scores(scores, {row + 1, width - 1}, options_.score_thresh, width)) {
          own.add(codes, row + 1 + k);
          from.add(proposals[n], p);
          kept.add(scores, row + 1 + k);
          labels.push_back(k);
        }
      const Tensor boxes = object_coding.decode(own.tensor(), from.tensor()), all_scores = kept.tensor();
      RowList large(box_type(), 4), large_scores(box_type(), 1);
      std::vector<std::int64_t> large_labels;
      for (const std::int64_t k : clip_boxes(boxes, size, least_side)) {
        large.add(boxes, k);
        large_scores.add(all_scores, k);
        large_labels.push_back(labels[static_cast<std::size_t>(k)]);
      }
      found[n] = best_objects({large.tensor(), large_scores.tensor(), large_labels}, size, options_.nms_thresh,
                              options_.detections_per_img);
    }
    return found;
  }

  Variable whole(const std::vector<std::int64_t>& values) const {
    return constant(Tensor::from(std::span<const std::int64_t>(values), {std::ssize(values)}));
  }
  Variable weights(std::int64_t rows, double weight) const {
    return constant(Tensor::full({rows}, weight, box_type(), Device::cpu));
  }
  Tensor on_host(const Variable& x) const { return x.tensor().to(Device::cpu).to(box_type()); }

  FasterRcnnOptions options_;
  FeaturePyramid pyramid_;
  ProposalHead proposal_head_;
  BoxHead box_head_;
};

const RegisterFamily<FasterRcnn, FasterRcnnOptions> faster_rcnn("fasterrcnn", "shape_boxes", "", "detection");

const RegisterPreset faster_rcnn_presets[] = {
    {"fasterrcnn_resnet50_fpn",
     "fasterrcnn",
     {{"backbone", "resnet50"}, {"num_classes", 90}, {"image_size", 800}, {"frozen_norm", true}}},
};

}  // namespace
}  // namespace lacuna
