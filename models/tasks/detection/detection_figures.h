// Objects found in images beside those that are there: as numbers for metrics, and as the figures of an evaluation.
#pragma once

#include "models/figures.h"
#include "models/task.h"
#include "models/tasks/detection/average_precision.h"

#include <span>
#include <string>
#include <vector>

namespace lacuna {

/// The boxes of an image.
struct ComparedImage {
  std::vector<TrueBox> truth{};
  std::vector<FoundBox> found{};
};

/// Images one behind another as f64 [numbers], and back.
Tensor numbers_of(std::span<const ComparedImage> images);
std::vector<ComparedImage> images_of(std::span<const double> numbers);

/// `ap` (the mean over thresholds of the intersection over union from 0.50 to 0.95), `ap_50` and `ap_75`, of
/// numbers_of(); 0 where no box could be found.
std::vector<Metric> detection_metrics();

/// COCO's twelve figures, the average precision of each class, and the images with the least precision.
class DetectionTable final : public Figures {
 public:
  explicit DetectionTable(std::vector<std::string> classes) : Figures("detection"), classes_(std::move(classes)) {}

  /// `numbers` as numbers_of() gives them; the second tensor is not read.
  void add(const Tensor& numbers, const Tensor& unused) override;
  void gather(Communicator& ranks) override;
  std::int64_t samples() const override { return static_cast<std::int64_t>(images_.size()); }
  std::vector<std::int64_t> worst() const override;
  nlohmann::ordered_json json(const SampleName& origin) const override;
  std::string text(const SampleName& origin) const override;

 private:
  DetectionFigures figures() const;
  std::string name(std::int64_t label) const;
  /// True boxes of the class that count.
  std::int64_t boxes_of(std::int64_t label) const;

  std::vector<std::string> classes_;
  std::vector<ComparedImage> images_;
  std::vector<std::int64_t> batches_;  // images of each, in order
};

}  // namespace lacuna
