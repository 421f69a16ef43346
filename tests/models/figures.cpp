// Predictions and figures, the values that commands print and reports draw.
#include "core/error.h"
#include "models/prediction.h"
#include "models/tasks/answer_figures.h"
#include "models/tasks/class_figures.h"
#include "models/tasks/label_figures.h"
#include "tests/thread_ranks.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace lacuna {
namespace {

Tensor floats(const std::vector<float>& values, const Shape& shape) {
  return Tensor::from(std::span<const float>(values), shape);
}
Tensor numbers(const std::vector<std::int64_t>& values) {
  return Tensor::from(std::span<const std::int64_t>(values), {std::ssize(values)});
}

const Figures::SampleName by_number = [](std::int64_t sample) { return std::to_string(sample); };

TEST_CASE("prediction: classes by name or number, with the softmax or the sigmoids of logits") {
  const Tensor logits = floats({0, 1, 0, 2, 2, 2}, {2, 3});
  const std::vector<Prediction> one = class_predictions(logits, {"a", "b"});
  REQUIRE(one.size() == 2);
  CHECK(one[0].classes[1].name == "b");
  CHECK(one[0].classes[2].name == "2");
  CHECK(one[0].classes[1].probability == doctest::Approx(std::exp(1.0) / (2 + std::exp(1.0))));
  CHECK(one[1].classes[0].probability == doctest::Approx(1.0 / 3));
  const std::vector<Prediction> several = class_predictions(logits, {}, "all");
  CHECK(several[1].classes[0].probability == doctest::Approx(1 / (1 + std::exp(-2.0))));
  CHECK(several[0].several == "all");
  const float infinite = std::numeric_limits<float>::infinity();
  CHECK(std::isnan(class_predictions(floats({0, infinite}, {1, 2}), {})[0].classes[0].probability));
}

TEST_CASE("figures: accuracy, precision and F1 of classes, null where nothing counts") {
  ClassFigures figures({"a", "b"});
  figures.add(floats({1, 0, 0, 1, 0, 0, 1, 0, 0}, {3, 3}), numbers({0, 0, 1}));
  const nlohmann::json json = figures.json(by_number);
  CHECK(json.at("top1") == doctest::Approx(2.0 / 3));
  const nlohmann::json& each = json.at("per_class");
  CHECK(each.at(0).at("accuracy") == 1.0);
  CHECK(each.at(0).at("precision") == doctest::Approx(2.0 / 3));
  CHECK(each.at(0).at("f1") == doctest::Approx(0.8));
  CHECK(each.at(1).at("precision").is_null());
  CHECK(each.at(2).at("accuracy").is_null());
  CHECK(each.at(2).at("f1").is_null());
  CHECK(json.at("worst").at(0).at("sample") == "2");
}

TEST_CASE("figures: answers by question, with and without one, on one rank or on several") {
  const auto rows = [](const std::vector<double>& values, const Shape& shape) {
    return Tensor::from(std::span<const double>(values), shape);
  };
  AnswerFigures figures;
  CHECK(figures.samples() == 0);
  // The second window of 7 is taken; 8 has no answer and none is predicted; 9 has none, and one is predicted.
  const Tensor windows = rows({7, 1, 0.25, 7, 3, 0.5, -9, 2, 0, 8, 1, 0, -10, 4, 1, 9, 5, 0, -11, 1, 1}, {7, 3});
  figures.add(windows, rows({0, 1, 0, 0, 1, 0, 1}, {7}));
  CHECK(figures.samples() == 3);
  const nlohmann::json json = figures.json(by_number).at("questions");
  CHECK(json.at(0).at("samples") == 1);
  CHECK(json.at(0).at("f1") == 0.5);
  CHECK(json.at(0).at("exact_match") == 1);
  CHECK(json.at(1).at("samples") == 2);
  CHECK(json.at(1).at("exact_match") == 0.5);
  CHECK(figures.text(by_number).find("without an answer") != std::string::npos);
  test::run_ranks(2, [&](Communicator& ranks) {
    AnswerFigures own;
    if (ranks.rank() == 0)
      own.add(windows.row_range(0, 2), rows({0, 1}, {2}));
    else
      own.add(windows.row_range(2, 7), rows({0, 0, 1, 0, 1}, {5}));
    own.gather(ranks);
    CHECK(own.json(by_number) == figures.json(by_number));
  });
}

TEST_CASE("figures: labels of tokens and several labels of a sample are counted alike, on one rank or on several") {
  // Two samples with labels {0, 2} and {1}, predicted as {0} and {1, 2}.
  const Tensor logits = floats({1, -1, -1, -1, 1, 1}, {2, 3}), labels = floats({1, 0, 1, 0, 1, 0}, {2, 3});
  LabelFigures whole({"a", "b", "c"});
  whole.add(logits, labels);
  const nlohmann::json json = whole.json(by_number);
  CHECK(json.at("micro_f1") == doctest::Approx(2.0 / 3));
  CHECK(json.at("macro_f1") == doctest::Approx(2.0 / 3));
  CHECK(json.at("per_class").at(0) ==
        nlohmann::json{{"class", "a"}, {"samples", 1}, {"precision", 1.0}, {"recall", 1.0}, {"f1", 1.0}});
  CHECK(json.at("per_class").at(2).at("f1") == 0.0);
  test::run_ranks(2, [&](Communicator& ranks) {
    LabelFigures part({"a", "b", "c"});
    const std::int64_t mine = ranks.rank();
    part.add(logits.row_range(mine, mine + 1), labels.row_range(mine, mine + 1));
    part.gather(ranks);
    CHECK(part.samples() == 2);
    CHECK(nlohmann::json(part.json(by_number)) == json);
  });
  LabelFigures tokens({});
  tokens.add(floats({1, 0, 0, 1, 1, 0}, {3, 2}), numbers({0, 1, 1}));
  CHECK(tokens.samples() == 3);
  CHECK(nlohmann::json(tokens.json(by_number)).at("per_class").at(1).at("recall") == 0.5);
  CHECK_THROWS_AS(tokens.add(logits, numbers({0})), Error);
}

}  // namespace
}  // namespace lacuna
