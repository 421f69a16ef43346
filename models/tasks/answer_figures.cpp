#include "models/tasks/answer_figures.h"

#include "core/collectives.h"
#include "core/error.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <utility>

namespace lacuna {
namespace {

using nlohmann::ordered_json;

struct Choice {
  std::optional<std::pair<double, double>> answered{}, unanswered{};  // score, value

  /// Takes the score and the value of a window.
  void add(bool is_answer, double score, double value) {
    std::optional<std::pair<double, double>>& best = is_answer ? answered : unanswered;
    if (!best || (is_answer ? score > best->first : score < best->first)) best = {score, value};
  }
  double value() const {
    const bool none = unanswered && (!answered || unanswered->first > answered->first);
    return none ? unanswered->second : answered->second;
  }
};

}  // namespace

double by_question(std::span<const double> kept) {
  std::map<double, Choice> questions;
  double sum = 0, count = 0;
  for (std::size_t i = 0; i + 2 < kept.size(); i += 3) {
    const double question = kept[i], score = kept[i + 1], value = kept[i + 2];
    if (question == judged_already) {
      sum += score * value;
      count += score;
    } else {
      questions[question >= 0 ? question : -2 - question].add(question >= 0, score, value);
    }
  }
  for (const auto& [question, choice] : questions) {
    sum += choice.value();
    ++count;
  }
  return sum / count;
}

void AnswerFigures::add(const Tensor& windows, const Tensor& exact) {
  const std::vector<double> rows = windows.to_vector(), matches = exact.to_vector();
  expect(rows.size() == 3 * matches.size(), "expected windows [{}, 3], got {}", matches.size(), windows.shape());
  for (std::size_t i = 0; i < matches.size(); ++i)
    if (rows[3 * i] != judged_already)
      windows_.insert(windows_.end(), {rows[3 * i], rows[3 * i + 1], rows[3 * i + 2], matches[i]});
}

void AnswerFigures::gather(Communicator& ranks) {
  std::vector<double> all;
  for (const std::vector<double>& of_rank : all_gather_numbers(ranks, windows_))
    all.insert(all.end(), of_rank.begin(), of_rank.end());
  windows_ = std::move(all);
}

std::pair<AnswerFigures::Part, AnswerFigures::Part> AnswerFigures::parts() const {
  struct Judged {
    Choice f1{}, exact{};
    bool has_answer = true;
  };
  std::map<double, Judged> questions;
  for (std::size_t i = 0; i + 3 < windows_.size(); i += 4) {
    const bool is_answer = windows_[i] >= 0;
    Judged& judged = questions[is_answer ? windows_[i] : -2 - windows_[i]];
    judged.f1.add(is_answer, windows_[i + 1], windows_[i + 2]);
    judged.exact.add(is_answer, windows_[i + 1], windows_[i + 3]);
    if (!is_answer && windows_[i + 3] == 1) judged.has_answer = false;  // no answer is right
  }
  std::pair<Part, Part> parts;
  for (const auto& [number, judged] : questions) {
    Part& part = judged.has_answer ? parts.first : parts.second;
    ++part.questions;
    part.f1 += judged.f1.value();
    part.exact += judged.exact.value();
  }
  for (Part* const part : {&parts.first, &parts.second}) {
    const auto count = static_cast<double>(std::max<std::int64_t>(part->questions, 1));
    part->f1 /= count;
    part->exact /= count;
  }
  return parts;
}

std::int64_t AnswerFigures::samples() const {
  const auto [with, without] = parts();
  return with.questions + without.questions;
}

ordered_json AnswerFigures::json(const SampleName&) const {
  const auto [with, without] = parts();
  ordered_json questions = ordered_json::array();
  for (const auto& [name, part] : {std::pair("with an answer", with), std::pair("without an answer", without)})
    if (part.questions > 0)
      questions.push_back(
          {{"questions", name}, {"samples", part.questions}, {"exact_match", part.exact}, {"f1", part.f1}});
  return {{"questions", std::move(questions)}};
}

std::string AnswerFigures::text(const SampleName&) const {
  const auto [with, without] = parts();
  std::string text;
  for (const auto& [name, part] : {std::pair("with an answer", with), std::pair("without an answer", without)})
    if (part.questions > 0)
      text += fmt::format("{} questions {}: exact match {:.2f} %, F1 {:.2f} %\n", part.questions, name,
                          100 * part.exact, 100 * part.f1);
  return text;
}

}  // namespace lacuna
