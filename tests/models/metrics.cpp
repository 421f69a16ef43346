#include "models/tasks/metrics.h"
#include "core/error.h"
#include "data/text/entity_labels.h"
#include "models/tasks/entities.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace lacuna {
namespace {

std::vector<std::int64_t> drawn(std::uint64_t seed, int count, std::uint64_t below) {
  std::vector<std::int64_t> values;
  for (int i = 0; i < count; ++i) {
    seed = (seed * 1103515245 + 12345) % (1U << 31U);
    values.push_back(static_cast<std::int64_t>(seed / 65536 % below));
  }
  return values;
}

// A model that gives its input `scores`.
class Echo final : public Model {
 public:
  explicit Echo(std::int64_t outputs) : Model({}, {.inputs = {}, .num_classes = outputs, .heads = {}}) {}
  Outputs forward(Inputs inputs) override {
    Outputs outputs;
    outputs.set("logits", inputs.take("scores"));
    return outputs;
  }
};

// Values of the metrics over `batches` batches.
NamedValues<double> values_of(const char* task, const char* metrics, std::int64_t outputs, const Tensor& scores,
                              const Tensor& labels, std::int64_t batches) {
  Echo model(outputs);
  const auto made = make_task(task, {{"metrics", std::string(metrics)}}, model);
  TaskTotals all;
  for (const Batch& part : split_batch(Batch{{"scores", scores}, {"labels", labels}}, batches)) {
    RunningTotals running(*made);
    running.add(made->run(model, part, TaskMode::evaluate), part.samples, static_cast<double>(part.samples));
    all.add(running.read(single_process()));
  }
  NamedValues<double> values;
  for (const auto& [name, value] : all.values(*made)) values.set(name, value);
  return values;
}

// See make_metrics.py.
TEST_CASE("metrics of classes are sklearn's, in however many batches") {
  for (const std::int64_t classes : {2, 4}) {
    const auto labels = drawn(1, 300, static_cast<std::uint64_t>(classes)), keep = drawn(2, 300, 2),
               other = drawn(3, 300, static_cast<std::uint64_t>(classes));
    const Tensor scores = Tensor::zeros({300, classes}, DType::f32, Device::cpu);
    for (std::size_t i = 0; i < 300; ++i)
      scores.data<float>()[static_cast<std::int64_t>(i) * classes + (keep[i] != 0 ? labels[i] : other[i])] = 1;
    const Tensor truth = Tensor::from(std::span<const std::int64_t>(labels), {300});
    for (const std::int64_t batches : {1, 6}) {
      const char* const names = classes == 2 ? "matthews, accuracy, macro_f1, f1" : "matthews, accuracy, macro_f1";
      const NamedValues<double> values = values_of("classification", names, classes, scores, truth, batches);
      const auto check = [&](const char* name, double expected) {
        CAPTURE(name);
        CHECK(values[name] == doctest::Approx(expected).epsilon(1e-9));
      };
      if (classes == 2) check("f1", 0.8178913738019169);
      check("accuracy", classes == 2 ? 0.81 : 0.7);
      check("macro_f1", classes == 2 ? 0.8096425510124567 : 0.7063094967089755);
      check("matthews", classes == 2 ? 0.6194475849883523 : 0.5993321241244562);
    }
  }
}

TEST_CASE("correlations are scipy's, with ties, in however many batches") {
  const auto quarters = drawn(4, 300, 21), noise = drawn(5, 300, 101);
  const Tensor scores = Tensor::zeros({300, 1}, DType::f32, Device::cpu),
               labels = Tensor::zeros({300}, DType::f32, Device::cpu);
  for (std::size_t i = 0; i < 300; ++i) {
    labels.data<float>()[i] = static_cast<float>(quarters[i]) / 4;
    scores.data<float>()[i] = labels.data<float>()[i] + static_cast<float>(noise[i] - 50) / 32;
  }
  for (const std::int64_t batches : {1, 6}) {
    const NamedValues<double> values = values_of("regression", "pearson, spearman, mse", 1, scores, labels, batches);
    CHECK(values["pearson"] == doctest::Approx(0.8677436151702536).epsilon(1e-9));
    CHECK(values["spearman"] == doctest::Approx(0.8729336923605927).epsilon(1e-9));
  }
  scores.data<float>()[7] = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(values_of("regression", "spearman", 1, scores, labels, 1)["spearman"]));
}

// seqeval 1.2.2: get_entities(labels), and f1_score, precision_score, recall_score.
TEST_CASE("entities are seqeval's") {
  using Words = std::vector<std::string_view>;
  const std::vector<std::pair<Words, std::vector<Entity>>> cases{
      {{"B-PER", "I-PER", "O", "B-LOC"}, {{"PER", 0, 1}, {"LOC", 3, 3}}},
      {{"I-PER", "I-PER", "I-LOC"}, {{"PER", 0, 1}, {"LOC", 2, 2}}},
      {{"B-PER", "B-PER", "O", "I-PER"}, {{"PER", 0, 0}, {"PER", 1, 1}, {"PER", 3, 3}}},
      {{"S-A", "E-A", "B-A", "E-A", "I-A"}, {{"A", 0, 0}, {"A", 1, 1}, {"A", 2, 3}, {"A", 4, 4}}},
      {{"B", "I", "O", "I"}, {{"", 0, 1}, {"", 3, 3}}},
      {{"B-a-b", "I-a-b"}, {{"a-b", 0, 1}}},
      {{"O", "O"}, {}}};
  for (const auto& [labels, expected] : cases) CHECK(entities_in(labels) == expected);
  const auto are = [](const std::vector<std::string>& names) { return are_entity_labels(names); };
  CHECK(are({"O", "B-PER", "I-PER"}));
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{"A", "B"}, {"O"}, {"B-"}, {"NOUN", "O"}, {"0", "1"}})
    CHECK_FALSE(are(names));
  CHECK(entity_metric("f1")->value(std::vector<double>{2, 5, 3}) == 0.5);
  CHECK(entity_metric("precision")->value(std::vector<double>{2, 5, 3}) == 0.4);
  CHECK(entity_metric("recall")->value(std::vector<double>{0, 5, 0}) == 0);
  CHECK_FALSE(entity_metric("accuracy"));
  // Two sentences: an entity never goes on in the next one.
  const std::vector<std::string> names{"O", "B-X", "I-X"};
  const std::vector<std::int64_t> wanted{1, 2, 2, 0, 1}, ends{2, 5};
  const std::vector<float> logits{0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 1, 0};  // 1 2 | 2 2 1
  const Tensor sums = entity_sums(names, ends, Tensor::from(std::span<const float>(logits), {5, 3}),
                                  Tensor::from(std::span<const std::int64_t>(wanted), {5}));
  CHECK(sums.to_vector() == std::vector<double>{2, 3, 3});
}

TEST_CASE("metrics that the task has not are refused; predictions of one class have no correlation") {
  Echo model(3);
  CHECK_THROWS_WITH_AS(make_task("classification", {{"metrics", std::string("f1")}}, model), doctest::Contains("f1"),
                       Error);
  CHECK_THROWS_WITH_AS(make_task("classification", {{"metrics", std::string("pearson")}}, model),
                       doctest::Contains("matthews"), Error);
  CHECK_THROWS_WITH_AS(make_task("regression", {{"metrics", std::string("accuracy")}}, model),
                       doctest::Contains("spearman"), Error);
  const Tensor scores = Tensor::zeros({4, 2}, DType::f32, Device::cpu);
  const std::vector<std::int64_t> labels{0, 1, 1, 0};
  CHECK(values_of("classification", "matthews", 2, scores, Tensor::from(std::span<const std::int64_t>(labels), {4}),
                  1)["matthews"] == 0);
}

}  // namespace
}  // namespace lacuna
