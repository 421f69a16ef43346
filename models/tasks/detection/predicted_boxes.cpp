#include "models/tasks/detection/predicted_boxes.h"

#include "core/error.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace lacuna {

void PredictedBoxes::add(std::string label, double score, std::vector<double> box) {
  labels.push_back(std::move(label));
  scores.push_back(score);
  boxes.push_back(std::move(box));
}

Prediction PredictedBoxes::prediction() const {
  return {.values = {{"labels", labels}, {"scores", scores}, {"boxes", boxes}}};
}

PredictedBoxes PredictedBoxes::of(const Prediction& prediction, double least_score) {
  const auto value = [&](std::string_view name) -> const Prediction::Value& {
    const auto found = std::ranges::find(prediction.values, name, &std::pair<std::string, Prediction::Value>::first);
    expect(found != prediction.values.end(), "the prediction has no `{}`", name);
    return found->second;
  };
  const PredictedBoxes all{std::get<std::vector<std::string>>(value("labels")),
                           std::get<std::vector<double>>(value("scores")),
                           std::get<std::vector<std::vector<double>>>(value("boxes"))};
  PredictedBoxes good;
  for (std::size_t k = 0; k < all.scores.size(); ++k)
    if (all.scores[k] >= least_score) good.add(all.labels[k], all.scores[k], all.boxes[k]);
  return good;
}

nlohmann::ordered_json PredictedBoxes::json() const {
  return {{"labels", labels}, {"scores", scores}, {"boxes", boxes}};
}

std::string PredictedBoxes::text() const {
  std::vector<std::string> words;
  for (std::size_t k = 0; k < boxes.size(); ++k)
    words.push_back(fmt::format("{} {:.4f} [{:.0f}]", labels[k], scores[k], fmt::join(boxes[k], ", ")));
  return words.empty() ? "nothing found" : fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace lacuna
