// A task of one's own, in one file, through the whole command: docs/adding-a-task.md shows the same code.
#include "core/collectives.h"
#include "data/dataset.h"
#include "models/prediction.h"
#include "models/task.h"
#include "models/tasks/class_targets.h"
#include "models/tasks/metrics.h"
#include "nn/functional.h"
#include "ops/losses/mean_squared_error.h"
#include "tests/apps/commands/command_run.h"

#include <algorithm>
#include <numeric>

namespace lacuna {
namespace {

/// The mean of the largest probability, and the share of samples in each tenth of it.
class Confidence final : public Figures {
 public:
  Confidence() : Figures("confidence"), counts_(10) {}
  void add(const Tensor& probabilities, const Tensor& /*labels*/) override {
    for (const std::vector<double>& row : rows_of(probabilities)) {
      const double largest = std::ranges::max(row);
      sum_ += largest;
      ++counts_[std::min<std::size_t>(9, static_cast<std::size_t>(10 * largest))];
    }
  }
  void gather(Communicator& ranks) override {
    sum_on_all_ranks(ranks, counts_);
    std::vector<double> sum{sum_};
    sum_on_all_ranks(ranks, sum);
    sum_ = sum.front();
  }
  std::int64_t samples() const override {
    return static_cast<std::int64_t>(std::accumulate(counts_.begin(), counts_.end(), 0.0));
  }
  nlohmann::ordered_json json(const SampleName&) const override {
    nlohmann::ordered_json json{{"mean", sum_ / static_cast<double>(samples())}};
    for (std::size_t i = 0; i < counts_.size(); ++i)
      json["tenths"].push_back({{"probability", static_cast<double>(i) / 10}, {"samples", counts_[i]}});
    return json;
  }
  std::string text(const SampleName&) const override {
    return fmt::format("mean confidence {:.3f}\n", sum_ / static_cast<double>(samples()));
  }

 private:
  static void sum_on_all_ranks(Communicator& ranks, std::vector<double>& numbers) {
    const std::vector<double> mine = numbers;
    std::ranges::fill(numbers, 0);
    for (const std::vector<double>& of_rank : all_gather_numbers(ranks, mine))
      std::ranges::transform(numbers, of_rank, numbers.begin(), std::plus());
  }

  double sum_ = 0;
  std::vector<double> counts_;
};

struct BrierOptions {
  double temperature = 1;
  static Fields fields() {
    return {field("temperature", &BrierOptions::temperature, at_least(0.01), "divides the logits")};
  }
};

/// Brier score: mean squared error of the probabilities [N, C] with the labels as 0 and 1.
class Brier final : public Task {
 public:
  Brier(const BrierOptions& options, const Model& model)
      : Task({{.name = "brier",
               .higher_is_better = false,
               .sums = 2,
               .value = [](std::span<const double> sums) { return sums[0] / sums[1]; }}}),
        classes_(model.num_classes()),
        temperature_(options.temperature) {}

  SampleFields targets() const override { return {class_field(classes_)}; }

  TaskResult run(Model& model, Inputs batch, TaskMode mode) const override {
    const Tensor labels = batch.take("labels").tensor();
    const Tensor wanted = on_device(binary_targets(labels, classes_, 0, -1), model.context().device);
    Variable probabilities = softmax(model.forward(std::move(batch)).take("logits") / temperature_);
    if (mode == TaskMode::evaluate) show(probabilities.tensor(), labels);
    const auto samples = static_cast<double>(probabilities.shape()[0]);
    TaskResult result;
    result.loss = apply(MeanSquaredError{}, std::move(probabilities), Variable(wanted));
    result.sums = {sum_and_count(result.loss.tensor(), samples)};
    return result;
  }

  std::vector<Prediction> predict(Model& model, Inputs batch) const override {
    const Variable logits = model.forward(std::move(batch)).take("logits") / temperature_;
    return class_predictions(logits.tensor(), data().classes);
  }

  std::unique_ptr<Figures> figures() const override { return std::make_unique<Confidence>(); }

 private:
  std::int64_t classes_;
  double temperature_;
};

const RegisterTask brier("brier", {.options = BrierOptions{},
                                   .make =
                                       [](const Options& options, const Model& model) {
                                         return std::make_unique<Brier>(options.as<BrierOptions>(), model);
                                       },
                                   .head = "classification"});

}  // namespace

namespace test {
namespace {

void write_picture(const std::filesystem::path& path, char red, char green) {
  std::filesystem::create_directories(path.parent_path());
  std::string text = "P6 8 8 255\n";
  for (int i = 0; i < 64; ++i) text += {red, green, 7};
  write_file(path, text);
}

TEST_CASE("own task: one file with a loss, a metric, predictions and figures trains, evaluates and predicts") {
  const TemporaryFolder folder;
  for (int i = 0; i < 12; ++i) {
    write_picture(folder / fmt::format("pictures/red/{}.ppm", i), static_cast<char>(100 + i), 3);
    write_picture(folder / fmt::format("pictures/green/{}.ppm", i), 3, static_cast<char>(100 + i));
  }
  const CommandResult trained = run_here(
      folder,
      {"train", "model={name: vit, image_size: 8, patch_size: 4, embed_dim: 8, depth: 1, num_heads: 2}",
       "data.path=pictures", "task={name: brier, temperature: 0.5}", "train={epochs: 8, batch_size: 8, threads: 1}",
       "optimizer.lr=0.01", "output.dir=r", "--json", "s.json"});
  REQUIRE(trained.code == 0);
  CHECK(read_json(folder / "s.json").at("val_brier").get<double>() < 0.1);
  CHECK(run_here(folder, {"train", "-c", "r/config.yaml", "task.temperature=0", "output.dir=x"}).code == 2);

  const CommandResult evaluated = run_here(folder, {"eval", "r", "--json", "-"});
  REQUIRE(evaluated.code == 0);
  const nlohmann::json figures = evaluated.json();
  CHECK(figures.at("val_brier").get<double>() < 0.1);
  CHECK(figures.at("confidence").at("mean").get<double>() > 0.5);
  CHECK(!figures.contains("classes"));
  CHECK(read_json(folder / "r/classes.json").at("confidence") == figures.at("confidence"));
  test::check_says(run_here(folder, {"eval", "r"}).out, "mean confidence");
  REQUIRE(run_here(folder, {"report", "r"}).code == 0);
  test::check_says(read_file(folder / "r/report.html"), "\"confidence\"");

  write_picture(folder / "one.ppm", 110, 3);
  const CommandResult predicted = run_here(folder, {"predict", "r", "one.ppm", "--json"});
  REQUIRE(predicted.code == 0);
  CHECK(predicted.json().at("label") == "red");
  CHECK(predicted.json().at("top").size() == 2);
  CHECK(run_here(folder, {"predict", "r", "one.ppm"}).out.starts_with("one.ppm: red "));
}

}  // namespace
}  // namespace test
}  // namespace lacuna
