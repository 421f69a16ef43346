#include "models/tasks/label_figures.h"

#include "core/collectives.h"
#include "core/error.h"
#include "models/prediction.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace lacuna {

using nlohmann::ordered_json;

void LabelFigures::add(const Tensor& logits, const Tensor& labels) {
  const std::vector<std::vector<double>> rows = rows_of(logits);
  const std::vector<double> wanted = labels.to_vector();
  const auto width = static_cast<std::size_t>(logits.shape().back());
  const bool several = labels.shape().rank() == 2;
  expect(wanted.size() == rows.size() * (several ? width : 1), "expected labels for logits {}, got {}", logits.shape(),
         labels.shape());
  classes_.resize(width);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const auto largest = static_cast<std::size_t>(std::ranges::max_element(rows[row]) - rows[row].begin());
    for (std::size_t c = 0; c < width; ++c) {
      const bool is = several ? wanted[row * width + c] > 0.5 : static_cast<std::size_t>(wanted[row]) == c;
      const bool found = several ? rows[row][c] > 0 : largest == c;
      classes_[c].labelled += is ? 1 : 0;
      classes_[c].predicted += found ? 1 : 0;
      classes_[c].both += is && found ? 1 : 0;
    }
  }
  rows_ += std::ssize(rows);
}

void LabelFigures::gather(Communicator& ranks) {
  std::vector<double> mine{static_cast<double>(rows_)};
  for (const Counts& one : classes_) mine.insert(mine.end(), {one.labelled, one.predicted, one.both});
  rows_ = 0;
  classes_.clear();
  for (const std::vector<double>& of_rank : all_gather_numbers(ranks, mine)) {
    rows_ += static_cast<std::int64_t>(of_rank.front());
    const std::size_t classes = of_rank.size() / 3;
    classes_.resize(std::max(classes_.size(), classes));
    for (std::size_t c = 0; c < classes; ++c) {
      classes_[c].labelled += of_rank[3 * c + 1];
      classes_[c].predicted += of_rank[3 * c + 2];
      classes_[c].both += of_rank[3 * c + 3];
    }
  }
}

double LabelFigures::micro_f1() const {
  Counts all;
  for (const Counts& one : classes_)
    all = {all.labelled + one.labelled, all.predicted + one.predicted, all.both + one.both};
  return all.f1();
}

double LabelFigures::macro_f1() const {
  double sum = 0, classes = 0;
  for (const Counts& one : classes_) {
    sum += one.f1();
    classes += one.labelled + one.predicted > 0 ? 1 : 0;
  }
  return classes > 0 ? sum / classes : 0;
}

ordered_json LabelFigures::json(const SampleName&) const {
  const auto quotient = [](double part, double whole) {
    return whole > 0 ? ordered_json(part / whole) : ordered_json(nullptr);
  };
  ordered_json json{{"micro_f1", micro_f1()}, {"macro_f1", macro_f1()}, {"per_class", ordered_json::array()}};
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    const Counts& one = classes_[c];
    json["per_class"].push_back({{"class", class_name(names_, static_cast<std::int64_t>(c))},
                                 {"samples", static_cast<std::int64_t>(one.labelled)},
                                 {"precision", quotient(one.both, one.predicted)},
                                 {"recall", quotient(one.both, one.labelled)},
                                 {"f1", quotient(2 * one.both, one.labelled + one.predicted)}});
  }
  return json;
}

std::string LabelFigures::text(const SampleName&) const {
  constexpr std::size_t most = 12;
  std::string text = fmt::format("micro F1 {:.4f}, macro F1 {:.4f}\n", micro_f1(), macro_f1());
  for (std::size_t c = 0; c < std::min(most, classes_.size()); ++c)
    text += fmt::format("{}: F1 {:.4f}, {} labelled, {} predicted, {} both\n",
                        class_name(names_, static_cast<std::int64_t>(c)), classes_[c].f1(), classes_[c].labelled,
                        classes_[c].predicted, classes_[c].both);
  if (classes_.size() > most) text += fmt::format("and {} more classes in the JSON\n", classes_.size() - most);
  return text;
}

}  // namespace lacuna
