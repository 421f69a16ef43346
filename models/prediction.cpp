#include "models/prediction.h"

#include "core/error.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace lacuna {
namespace {

/// In place of logits.
void to_probabilities(std::vector<double>& logits, bool one_class) {
  if (!std::ranges::all_of(logits, [](double logit) { return std::isfinite(logit); })) {
    std::ranges::fill(logits, std::numeric_limits<double>::quiet_NaN());
  } else if (one_class) {
    const double highest = *std::ranges::max_element(logits);
    for (double& logit : logits) logit = std::exp(logit - highest);
    const double sum = std::accumulate(logits.begin(), logits.end(), 0.0);
    for (double& logit : logits) logit /= sum;
  } else {
    for (double& logit : logits) logit = 1 / (1 + std::exp(-logit));
  }
}

}  // namespace

std::string class_name(const std::vector<std::string>& names, std::int64_t number) {
  return number < std::ssize(names) ? names[static_cast<std::size_t>(number)] : std::to_string(number);
}

std::vector<std::vector<double>> rows_of(const Tensor& x) {
  expect(x.shape().rank() == 2, "rows: expected [N, C], got {}", x.shape());
  const std::vector<double> all = x.to_vector();
  std::vector<std::vector<double>> rows;
  const auto width = x.shape().back();
  for (auto row = all.begin(); row != all.end(); row += width) rows.emplace_back(row, row + width);
  return rows;
}

std::vector<Prediction> class_predictions(const Tensor& logits, const std::vector<std::string>& names,
                                          std::string_view several) {
  std::vector<Prediction> all;
  for (std::vector<double>& row : rows_of(logits)) {
    to_probabilities(row, several.empty());
    Prediction& prediction = all.emplace_back();
    prediction.several = several;
    for (std::size_t i = 0; i < row.size(); ++i)
      prediction.classes.push_back({class_name(names, static_cast<std::int64_t>(i)), row[i]});
  }
  return all;
}

}  // namespace lacuna
