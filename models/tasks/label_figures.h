// Figures of classes of which a sample has several or none, or each of its tokens one: precision, recall and F1.
#pragma once

#include "models/figures.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lacuna {

class LabelFigures final : public Figures {
 public:
  /// `classes`: names by label; a class without one goes by its number.
  explicit LabelFigures(std::vector<std::string> classes) : Figures("labels"), names_(std::move(classes)) {}

  /// Logits [N, C] with labels i64 [N], where the largest logit is the prediction, or with labels [N, C] of 0 and 1,
  /// where positive logits are.
  void add(const Tensor& logits, const Tensor& labels) override;
  void gather(Communicator& ranks) override;
  /// Rows of logits.
  std::int64_t samples() const override { return rows_; }

  /// `micro_f1`, `macro_f1` (over classes that are or are predicted) and `per_class`; a quotient by 0 is null.
  nlohmann::ordered_json json(const SampleName& origin) const override;
  std::string text(const SampleName& origin) const override;

 private:
  struct Counts {
    double labelled = 0, predicted = 0, both = 0;
    double f1() const { return labelled + predicted > 0 ? 2 * both / (labelled + predicted) : 0; }
  };
  double micro_f1() const;
  double macro_f1() const;

  std::vector<std::string> names_;
  std::int64_t rows_ = 0;
  std::vector<Counts> classes_;
};

}  // namespace lacuna
