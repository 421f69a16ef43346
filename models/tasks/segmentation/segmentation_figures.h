// Figures of a segmentation: IoU of each class, the confusion matrix of pixels, the worst images.
#pragma once

#include "models/figures.h"
#include "models/prediction.h"
#include "models/tasks/segmentation/confusion.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lacuna {

class SegmentationFigures final : public Figures {
 public:
  /// `names`: of the classes, by number; a class without one goes by its number.
  SegmentationFigures(std::int64_t classes, std::int64_t ignored, std::vector<std::string> names)
      : Figures("segmentation"), all_(classes), ignored_(ignored), names_(std::move(names)) {}

  /// Predictions and labels [N, H, W].
  void add(const Tensor& predictions, const Tensor& labels) override;
  void gather(Communicator& ranks) override;
  std::int64_t samples() const override { return static_cast<std::int64_t>(of_images_.size()); }
  /// Up to 20 images, the least mean IoU of their own classes first; none without pixels that count.
  std::vector<std::int64_t> worst() const override;

  /// `miou`, `pixel_accuracy`, `mean_accuracy`, `per_class` (`iou` null: not present), `confusion` (shares of pixels of
  /// up to 100 classes: a row for each label, a column for each prediction) and `worst`.
  nlohmann::ordered_json json(const SampleName& origin) const override;
  std::string text(const SampleName& origin) const override;

 private:
  std::string name(std::int64_t c) const { return class_name(names_, c); }
  double value_of(std::size_t metric) const;

  Confusion all_;
  std::int64_t ignored_;
  std::vector<std::string> names_;
  std::vector<double> of_images_;      // mean IoU of each; -1: no pixel of it counts
  std::vector<std::int64_t> batches_;  // images of each
};

}  // namespace lacuna
