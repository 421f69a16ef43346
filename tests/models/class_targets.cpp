// Losses of classification beyond plain cross entropy: values and gradients of torch and timm 1.0.31, printed by
// make_class_losses.py.
#include "models/tasks/class_targets.h"
#include "autograd/policy.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "models/task.h"
#include "nn/functional.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace lacuna {
namespace {

const std::vector<double> logits{1, 0, -1, 1.5, 0, 1.5, -0.5, 1, -1, -0.5, 0, 0.5};   // [3, 4]
const std::vector<double> probabilities{0.3, 0, 0, 0.7, 0.5, 0.5, 0, 0, 0, 0, 1, 0};  // [3, 4]

/// Gives its input `scores` [N, 4] as its logits.
class Echo final : public Model {
 public:
  Echo()
      : Model({.dtype = DType::f64},
              {.inputs = {{.name = "scores", .dtype = DType::f64, .shape = {4}}}, .num_classes = 4, .heads = {}}) {}
  Outputs forward(Inputs inputs) override {
    Outputs outputs;
    outputs.set("logits", inputs.take("scores"));
    return outputs;
  }
};

Tensor labels() {
  const std::vector<std::int64_t> values{3, 0, 2};
  return Tensor::from(std::span<const std::int64_t>(values), {3});
}
Tensor soft() { return Tensor::from(std::span<const double>(probabilities), {3, 4}); }

struct Result {
  double loss;
  std::vector<double> gradient;
};

Result run(const OptionValues& settings, const Tensor& targets, TaskMode mode = TaskMode::train) {
  Echo model;
  const auto task = make_task("classification", settings, model);
  const auto policy = make_policy("exact");
  Tape tape(*policy);
  const Recording recording(tape);
  Variable scores(Tensor::from(std::span<const double>(logits), {3, 4}), true, "scores");
  Inputs inputs;
  inputs.set("scores", scores);
  inputs.set("labels", Variable(targets));
  Variable loss = task->run(model, std::move(inputs), mode).loss;
  const double value = loss.tensor().item();
  tape.backward(loss);
  return {value, scores.grad().to_vector()};
}

void check(const Result& result, double loss, const std::vector<double>& gradient) {
  CHECK(result.loss == doctest::Approx(loss).epsilon(1e-6));
  REQUIRE(result.gradient.size() == gradient.size());
  for (std::size_t i = 0; i < gradient.size(); ++i)
    CHECK(result.gradient[i] == doctest::Approx(gradient[i]).epsilon(1e-5));
}

}  // namespace

TEST_CASE("classification: weights of the classes, of labels and of probabilities") {
  const std::string weights = "1, 2, 0.5, 4";
  check(run({{"class_weights", weights}}, labels()), 0.9838594655796119,
        {0.230738419, 0.084883921, 0.031227049, -0.346849388, -0.161172278, 0.09252852, 0.012522374, 0.056121384,
         0.009230575, 0.015218645, -0.065817787, 0.041368567});
  check(run({{"class_weights", weights}, {"label_smoothing", 0.2}}, labels()), 1.049190695158927,
        {0.197131553, 0.057683186, 0.023363721, -0.278178459, -0.130286518, 0.090539193, 0.010168334, 0.02957899,
         0.005216482, 0.005407082, -0.038381206, 0.027757642});
  check(run({{"class_weights", weights}, {"label_smoothing", 0.2}}, soft()), 1.6980575949858636,
        {0.205264168, 0.077740813, 0.032528562, -0.315533543, -0.090384953, -0.032823898, 0.02782502, 0.095383831,
         0.00956355, 0.009912983, -0.070365544, 0.05088901});
  CHECK(run({{"class_weights", weights}}, labels(), TaskMode::evaluate).loss ==
        run({}, labels(), TaskMode::evaluate).loss);

  // sklearn.utils.class_weight.compute_class_weight("balanced")
  CHECK(balanced_weights(std::vector<std::int64_t>{6, 2, 1, 3}) == "0.5, 1.5, 3, 1");
  CHECK_THROWS_AS(balanced_weights(std::vector<std::int64_t>{6, 0}), Error);
  CHECK_THROWS_WITH_AS(run({{"class_weights", std::string("balanced")}}, labels()), doctest::Contains("balanced"),
                       Error);
  for (const std::string wrong : {"1, 2", "1, 2, 3, x", "1, 2, 3, 0", "1, 2, 3, inf"}) {
    INFO(wrong);
    CHECK_THROWS_AS(run({{"class_weights", wrong}}, labels()), Error);
  }
}

TEST_CASE("classification: binary cross entropy, with smoothing, a threshold and a sum over the classes") {
  const OptionValues bce{{"loss", std::string("bce")}, {"label_smoothing", 0.1}};
  const auto with = [&](OptionValues more) {
    more.insert(bce.begin(), bce.end());
    return more;
  };
  check(run(bce, labels()), 0.7704204833548793,
        {0.058838215, 0.039583333, 0.020328452, -0.008952127, -0.035416667, 0.066047873, 0.029378389, 0.058838215,
         0.020328452, 0.029378389, -0.035416667, 0.049788278});
  check(run(with({{"target_threshold", 0.2}}), labels()), 0.7631288166882128,
        {0.060921548, 0.041666667, 0.022411785, -0.015202127, -0.041666667, 0.068131206, 0.031461722, 0.060921548,
         0.022411785, 0.031461722, -0.041666667, 0.051871611});
  check(run(with({{"target_threshold", 0.2}, {"sum_classes", true}}), soft()), 2.2191819334195175,
        {-0.08964714, 0.166666667, 0.08964714, -0.060808508, -0.166666667, -0.060808508, 0.12584689, 0.243686193,
         0.08964714, 0.12584689, -0.166666667, 0.207486444});
  check(run(with({{"class_weights", std::string("1, 2, 0.5, 4")}}), labels()), 0.7967134732250777,
        {0.058838215, 0.038541667, 0.021089971, -0.051138029, -0.035416667, 0.06566782, 0.030026784, 0.057157331,
         0.020328452, 0.028081599, -0.016145833, 0.047428648});
  CHECK(run(with({{"class_weights", std::string("1, 1, 1, 1")}}), labels()).loss == run(bce, labels()).loss);
  // An evaluation is by cross entropy, as timm's.
  CHECK(run(bce, labels(), TaskMode::evaluate).loss == run({}, labels(), TaskMode::evaluate).loss);

  CHECK_THROWS_AS(run(with({{"target_threshold", 0.01}}), labels()), Error);  // smoothing gives every class 0.025
  CHECK_THROWS_AS(run(with({{"class_weights", std::string("1, 2")}}), labels()), Error);
  CHECK_THROWS_AS(run({{"sum_classes", true}}, labels()), Error);
  CHECK_THROWS_AS(run({{"loss", std::string("hinge")}}, labels()), Error);
}

}  // namespace lacuna
