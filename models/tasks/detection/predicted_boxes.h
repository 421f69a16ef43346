// The objects of an image as a prediction.
#pragma once

#include "models/prediction.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace lacuna {

/// The values `labels`, `scores` and `boxes` (left, top, right, bottom) of a prediction, the best first.
struct PredictedBoxes {
  std::vector<std::string> labels{};
  std::vector<double> scores{};
  std::vector<std::vector<double>> boxes{};

  void add(std::string label, double score, std::vector<double> box);
  Prediction prediction() const;
  /// Boxes of a prediction with this score at least.
  static PredictedBoxes of(const Prediction& prediction, double least_score = 0);
  nlohmann::ordered_json json() const;
  /// As `dog 0.9131 [12, 40, 310, 388], cat 0.8022 [0, 3, 90, 120]`.
  std::string text() const;
};

}  // namespace lacuna
