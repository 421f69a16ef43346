#include "models/task.h"
#include "autograd/tape.h"

#include "core/error.h"
#include "tests/models/tiny_models.h"

#include <doctest/doctest.h>

#include <vector>

namespace lacuna {
namespace {

// Gives its input `scores` [N, K] as its logits.
class Echo final : public Model {
 public:
  explicit Echo(std::int64_t outputs)
      : Model({}, {.inputs = {{.name = "scores", .dtype = DType::f32, .shape = {outputs}}},
                   .num_classes = outputs,
                   .heads = {}}) {}
  Outputs forward(Inputs inputs) override {
    Outputs outputs;
    outputs.set("logits", inputs.take("scores"));
    return outputs;
  }
};

Batch batch_of(const std::vector<float>& scores, std::int64_t outputs, const Tensor& labels) {
  const Shape shape{static_cast<std::int64_t>(scores.size()) / outputs, outputs};
  return {{"scores", Tensor::from(std::span<const float>(scores), shape)}, {"labels", labels}};
}

Tensor labels_of(const std::vector<std::int64_t>& labels) {
  return Tensor::from(std::span<const std::int64_t>(labels), {std::ssize(labels)});
}

TaskTotals totals_of(const Task& task, Model& model, const std::vector<Batch>& batches,
                     TaskMode mode = TaskMode::evaluate) {
  RunningTotals running(task);
  for (const Batch& batch : batches) running.add(task.run(model, batch, mode), batch.samples, task.weight(batch, mode));
  return running.read(single_process());
}

TEST_CASE("task: unknown names, settings and inputs are refused") {
  Echo model(3);
  CHECK_THROWS_WITH_AS(make_task("clasification", {}, model), doctest::Contains("classification"), Error);
  CHECK_THROWS_WITH_AS(make_task("regression", {{"label_smoothing", 0.1}}, model), doctest::Contains("label_smoothing"),
                       Error);
  const auto task = make_task("classification", {}, model);
  CHECK_THROWS_WITH_AS(
      task->run(model, Batch{{"scores", Tensor::zeros({2, 3}, DType::f32, Device::cpu)}}, TaskMode::train),
      doctest::Contains("`labels`"), Error);
}

TEST_CASE("task: labels of no class are refused") {
  Echo without(0);
  CHECK_THROWS_WITH_AS(make_task("multi_label", {}, without), doctest::Contains("multi_label"), Error);
}

TEST_CASE("task: classification counts the correct ones, and the five best of ten classes or more") {
  Echo small(3);
  const auto task = make_task("classification", {}, small);
  CHECK(task->metrics().size() == 1);
  const std::vector<float> scores{1, 2, 0, 5, 1, 5, 0, 0, 0};
  const TaskTotals totals = totals_of(*task, small, {batch_of(scores, 3, labels_of({1, 2, 0}))});
  CHECK(totals.samples == 3);
  CHECK(totals.value(task->best_metric()) == doctest::Approx(2.0 / 3));  // the first of equal scores counts

  Echo large(12);
  const auto wide = make_task("classification", {}, large);
  REQUIRE(wide->metrics().size() == 2);
  std::vector<float> rising;
  for (int i = 0; i < 12; ++i) rising.push_back(static_cast<float>(i));
  const auto hits = [&](std::int64_t label) {
    return totals_of(*wide, large, {batch_of(rising, 12, labels_of({label}))}).value(wide->metrics()[1]);
  };
  CHECK(hits(11) == 1);
  CHECK(hits(7) == 1);
  CHECK(hits(6) == 0);
}

TEST_CASE("task: labels may be probabilities, of which the largest is the label") {
  Echo model(3);
  const auto task = make_task("classification", {}, model);
  const std::vector<float> probabilities{0.2F, 0.7F, 0.1F, 0.5F, 0.1F, 0.4F};
  const Batch batch = batch_of({0, 1, 0, 0, 1, 0}, 3, Tensor::from(std::span(probabilities), {2, 3}));
  CHECK(totals_of(*task, model, {batch}).value(task->best_metric()) == 0.5);
}

TEST_CASE("task: label smoothing is for training only") {
  Echo model(3);
  const auto plain = make_task("classification", {}, model);
  const auto smooth = make_task("classification", {{"label_smoothing", 0.3}}, model);
  const Batch batch = batch_of({3, 1, 0}, 3, labels_of({0}));
  CHECK(totals_of(*plain, model, {batch}).loss_sum == totals_of(*smooth, model, {batch}).loss_sum);
  CHECK(totals_of(*plain, model, {batch}, TaskMode::train).loss_sum <
        totals_of(*smooth, model, {batch}, TaskMode::train).loss_sum);
}

TEST_CASE("task: regression gives the mean squared error of one output and of several") {
  Echo one(1), two(2);
  const std::vector<float> wanted{1, 0, 5, 4};
  const auto task = make_task("regression", {}, one);
  CHECK(!task->best_metric().higher_is_better);
  const Batch batch = batch_of({1, 2, 3, 4}, 1, Tensor::from(std::span(wanted), {4}));
  CHECK(totals_of(*task, one, {batch}).value(task->best_metric()) == doctest::Approx(2));
  CHECK(totals_of(*task, one, {batch}).loss() == doctest::Approx(2));
  const Batch pairs = batch_of({1, 2, 3, 4}, 2, Tensor::from(std::span(wanted), {2, 2}));
  CHECK(totals_of(*make_task("regression", {}, two), two, {pairs}).loss() == doctest::Approx(2));
  CHECK_THROWS_AS(totals_of(*task, one, {batch_of({1, 2}, 1, labels_of({1, 2}))}), Error);
}

TEST_CASE("task: metrics of unequal batches combine to those of all samples") {
  Echo model(2);
  const auto task = make_task("classification", {}, model);
  const std::vector<float> scores{1, 0, 0, 1, 1, 0, 1, 0};
  const Batch whole = batch_of(scores, 2, labels_of({0, 1, 1, 0}));
  const TaskTotals at_once = totals_of(*task, model, {whole});
  const TaskTotals in_parts = totals_of(*task, model, {whole.part(0, 1), whole.part(1, 4)});
  CHECK(in_parts.sums == at_once.sums);
  CHECK(in_parts.loss() == doctest::Approx(at_once.loss()));
  TaskTotals sum = totals_of(*task, model, {whole.part(0, 1)});
  sum.add(totals_of(*task, model, {whole.part(1, 4)}));
  CHECK(sum.sums == at_once.sums);
  CHECK(sum.samples == 4);
  CHECK_THROWS_AS(TaskTotals().value(task->best_metric()), Error);
}

TEST_CASE("task: a vision transformer with one output learns to regress") {
  const std::unique_ptr<Model> model =
      build_model("vit", test::tiny_vit({{"num_classes", std::int64_t{1}}}).hyper_parameters, {});
  const auto task = make_task("regression", {}, *model);
  const std::vector<float> wanted{1, -1};
  const Batch batch{{"images", Tensor::full({2, 16, 16, 3}, 0.5, DType::f32, Device::cpu)},
                    {"labels", Tensor::from(std::span(wanted), {2})}};
  const auto policy = make_policy("exact");
  Tape tape(*policy);
  const Recording recording(tape);
  tape.backward(task->run(*model, batch, TaskMode::train).loss);
  for (const Parameter* parameter : model->parameters()) CHECK(parameter->grad().defined());
}

}  // namespace
}  // namespace lacuna
