// Detection: models that find the objects of images. A detector derives from Detector and registers its family with the
// task `detection`; the task and the commands know no other class.
#pragma once

#include "models/image_model.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// Limits of the found boxes, with torchvision's names.
struct DetectorOptions : ImageOptions {
  double score_thresh = 0.05, nms_thresh = 0.5;
  std::int64_t topk_candidates = 1000, detections_per_img = 100;

  static Fields fields();
};

/// The objects of an image, on the host, without those that count for nothing.
struct TrueObjects {
  Tensor boxes;                        // box_type() [K, 4], left, top, right, bottom in pixels; K may be 0
  std::vector<std::int64_t> labels{};  // [K], below num_classes
};

/// The objects found in an image, on the host, the best first.
struct FoundObjects {
  Tensor boxes, scores;                // box_type() [K, 4], [K]
  std::vector<std::int64_t> labels{};  // [K], below num_classes; -1: the class of torchvision's heads that is none
};

/// Input `images` and, with a truth, `boxes` f32 [B, 4], `box_labels` i64 [B], `box_uncounted` i64 [B] and
/// `box_offsets` i64 [N + 1]. Outputs: with a truth a scalar `loss_…` for each loss, a mean over the images whose sum
/// is trained on; in evaluation `boxes` [K, 4] and `scores` [K] of box_type(), `labels` i64 [K] and `offsets` i64
/// [N + 1], on the host; others as the detector likes, for comparisons.
///
/// `num_classes` counts classes of objects. torchvision's heads have one more, the background, as their class 0.
class Detector : public ImageModel {
 public:
  static constexpr std::string_view loss_prefix = "loss_";

 protected:
  using ImageModel::ImageModel;

  /// The outputs. `images` [N, H, W, C] has the context's type; `truth` is that of each image, or empty: none is given.
  /// On `meta`, `truth` holds made-up objects, as many as the batch says.
  virtual Outputs detect(Variable images, const std::vector<TrueObjects>& truth) = 0;

  /// The type of boxes, scores, and the targets and weights of losses: f64 in a model of f64, else f32.
  DType box_type() const { return context().dtype == DType::f64 ? DType::f64 : DType::f32; }
  /// Sets the outputs of evaluation, from those of each image.
  static void set_found(const std::vector<FoundObjects>& found, Outputs& outputs);
  /// A constant on the model's device, of a tensor on the host; without values on `meta`.
  Variable constant(const Tensor& tensor) const;

 private:
  Outputs run_with(Variable images, Inputs others) final;
  Variable classify(Variable images) final;
};

/// Candidates of an image: those that are left after the suppression by class, clipped to the image, the best first.
FoundObjects best_objects(const FoundObjects& candidates, ImageSize image, double nms_thresh, std::int64_t most);

/// Some elements of a tensor on the host.
struct Elements {
  std::int64_t first, count, step = 1;
};
/// The numbers of those scores (f32 or f64) that are above `least`, at most `most`, the best first; equal ones in
/// order.
std::vector<std::int64_t> best_scores(const Tensor& scores, Elements of, double least, std::int64_t most);

/// Rows of f32 or f64 tensors on the host, one behind another.
class RowList {
 public:
  RowList(DType type, std::int64_t width) : type_(type), width_(width) {}
  /// Row `number` of a tensor of rows of this width, in any shape.
  void add(const Tensor& rows, std::int64_t number);
  std::int64_t count() const { return std::ssize(bytes_) / row_bytes(); }
  /// [count, width], or [count] for a width of 1.
  Tensor tensor() const;

 private:
  std::int64_t row_bytes() const { return width_ * size_of(type_); }

  DType type_;
  std::int64_t width_;
  std::vector<std::byte> bytes_;
};

}  // namespace lacuna
