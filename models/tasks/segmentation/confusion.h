// Counts of pixels by label and prediction, over a whole set, and what follows from them. Of many classes only the sums
// are held, since those of each pair would take the square of their number.
#pragma once

#include "core/tensor.h"
#include "models/task.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace lacuna {

class Confusion {
 public:
  static constexpr std::int64_t most_in_matrix = 100;  // classes

  explicit Confusion(std::int64_t classes)
      : classes_(classes),
        counts_(static_cast<std::size_t>(classes * (3 + (classes <= most_in_matrix ? classes : 0)))) {}

  /// Adds pixels: predictions u8 or i32 and labels u8 or i64 of one shape, on the CPU. Labels `ignored` count nothing.
  void add(const Tensor& predictions, const Tensor& labels, std::int64_t ignored);
  void add(const Confusion& other);

  std::int64_t classes() const { return classes_; }
  bool has_matrix() const { return classes_ <= most_in_matrix; }
  /// With a matrix.
  std::int64_t count(std::int64_t label, std::int64_t predicted) const { return at(3 + label, predicted); }
  std::int64_t pixels() const;
  std::int64_t hits(std::int64_t c) const { return at(0, c); }
  std::int64_t labelled(std::int64_t c) const { return at(1, c); }
  std::int64_t predicted(std::int64_t c) const { return at(2, c); }

  /// Hits / (labelled + predicted - hits); nothing for a class that is neither labelled nor predicted.
  std::optional<double> iou(std::int64_t c) const;
  /// Hits / labelled; nothing for a class that no label has.
  std::optional<double> accuracy(std::int64_t c) const;
  /// The mean over the classes that have an IoU; 0 where none has.
  double mean_iou() const;

  /// All counts as numbers, and back.
  std::vector<double> numbers() const { return {counts_.begin(), counts_.end()}; }
  void add(const std::vector<double>& numbers);

 private:
  std::int64_t at(std::int64_t row, std::int64_t c) const {
    return counts_[static_cast<std::size_t>(row * classes_ + c)];
  }

  std::int64_t classes_;
  std::vector<std::int64_t> counts_;  // [3, classes]: hits, labelled, predicted; and the matrix [label, predicted]
};

/// `miou` (the mean over the classes that are labelled or predicted anywhere), `pixel_accuracy` and `mean_accuracy`
/// (the mean over the classes that are labelled anywhere).
std::vector<Metric> segmentation_metrics(std::int64_t classes);
/// Their sums over a batch.
std::vector<Tensor> segmentation_sums(const Confusion& confusion);

}  // namespace lacuna
