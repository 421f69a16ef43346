// Training targets of classification in other forms than labels.
#pragma once

#include "core/tensor.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// f32 [N, C]: (1 − smoothing) q + smoothing / C, where q are labels i64 [N] as 0 and 1, or probabilities f32 or f64
/// [N, C]; then, for a threshold of 0 or more, 1 where that is above it and 0 elsewhere (timm.loss.BinaryCrossEntropy).
Tensor binary_targets(const Tensor& labels, std::int64_t classes, double smoothing, double threshold);

/// Weights of the classes in a cross entropy, as torch.nn.CrossEntropyLoss(weight), or of their positive targets in a
/// binary one, as torch.nn.BCEWithLogitsLoss(pos_weight).
class ClassWeights {
 public:
  /// `text`: a number above 0 for each class with commas between them, `balanced`, or empty: none.
  ClassWeights(std::string_view text, std::int64_t classes);
  bool any() const { return balanced_ || !weights_.empty(); }

  /// Targets f32 [N, C] whose cross entropy, mean over N, is the weighted one: w · (smoothed q), of labels i64 [N]
  /// divided by the mean weight of the labels. `balanced` has no numbers yet: refused but on `meta`.
  Tensor targets(const Tensor& labels, double smoothing) const;
  /// The weight of that mean: the sum of the labels' weights (i64 [N]); N for probabilities, and on `meta`.
  double sum(const Tensor& labels) const;
  /// [classes], or none where all weigh alike. `balanced` is refused as above.
  const std::vector<double>& values(Device device) const;

 private:
  std::int64_t classes_;
  bool balanced_;
  std::vector<double> weights_;  // [classes]
};

/// The numbers that `balanced` stands for, by samples of each class, as text: n / (C · n_c), as sklearn's
/// compute_class_weight. A class without samples is the input's fault.
std::string balanced_weights(std::span<const std::int64_t> counts);

}  // namespace lacuna
