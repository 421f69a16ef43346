// Scores of answers by question, over all of its windows.
#pragma once

#include "models/figures.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lacuna {

/// The windows of questions put one behind another: [question, score, value] of each. The question's value is that of
/// its window with the highest score. `-2 - question`: the value where the question is left unanswered, which counts
/// where its lowest score is above the highest of its windows. `judged_already`: `value` is the mean of `score`
/// questions.
inline constexpr double judged_already = -1;

/// The mean over the questions.
double by_question(std::span<const double> kept);

/// Exact match and F1 of the questions that have an answer, and of those that have none, as SQuAD's official script.
class AnswerFigures final : public Figures {
 public:
  AnswerFigures() : Figures("answers") {}

  /// Windows, f64 [N, 3] as above, for the F1; `exact` f64 [N]: the exact match in place of the value.
  void add(const Tensor& windows, const Tensor& exact) override;
  void gather(Communicator& ranks) override;
  /// Questions.
  std::int64_t samples() const override;
  nlohmann::ordered_json json(const SampleName& name) const override;
  std::string text(const SampleName& name) const override;

 private:
  struct Part {
    std::int64_t questions = 0;
    double f1 = 0, exact = 0;
  };
  /// The questions with an answer, and those without one.
  std::pair<Part, Part> parts() const;

  std::vector<double> windows_;  // [N, 4]: question, score, F1, exact match
};

}  // namespace lacuna
