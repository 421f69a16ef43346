// Captured steps that are told once the next one runs: a run is the same, on the stand-in.
#include "core/stand_in/fibers.h"
#include "data/pipeline.h"
#include "models/trainer.h"
#include "tests/models/tiny_models.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lacuna {
namespace {

using namespace test;

/// A tiny ViT on drawn shapes: two epochs of six steps.
struct Run {
  std::unique_ptr<Model> model =
      build_model("vit", tiny_vit({{"num_classes", whole(10)}}).hyper_parameters, {.device = Device::cuda});
  std::unique_ptr<Optimizer> optimizer = make_optimizer("adamw", {}, *model);
  std::unique_ptr<MemoryPolicy> policy = make_policy("exact");
  std::unique_ptr<Task> task = make_task("classification", {}, *model);
  std::unique_ptr<Trainer> trainer;
  std::vector<double> told{};          // loss, number and rate of each step, losses of evaluations
  std::vector<std::int64_t> behind{};  // steps begun and not told, when each step begins
  std::int64_t begun = 0;

  explicit Run(
      bool graph, Schedule rate = [](std::int64_t step) { return 1e-2 / static_cast<double>(step + 1); },
      std::int64_t evaluate_every = 0, DatasetPtr images = nullptr) {
    trainer = std::make_unique<Trainer>(
        TrainedState{*model, *optimizer, *policy, nullptr}, *task,
        Batches{images ? images : data(Split::train), {.size = 4, .drop_last = true}},
        Batches{data(Split::validation), {.size = 4}},
        TrainerOptions{
            .epochs = 2, .evaluate_every = evaluate_every, .learning_rate = std::move(rate), .step = {.graph = graph}});
  }
  static DatasetPtr data(Split split) {
    const DatasetPtr images =
        open_dataset("shapes", {.split = split, .train_size = 24, .validation_size = 4, .image_size = 16});
    return transform(images, image_transforms(images->info(), {.image_size = 16}), 1);
  }
  TrainerEvents events() {
    return {.before_step = [this] { behind.push_back(begun++ - trainer->progress().step); },
            .after_step =
                [this](const StepResult& step, double rate, double) {
                  for (const double number : {step.loss, step.gradient_norm, step.totals.loss(), rate,
                                              static_cast<double>(trainer->progress().step)})
                    told.push_back(number);
                },
            .needs_state = [](std::int64_t) { return false; },
            .after_epoch = [this](const EpochResult& epoch) { told.push_back(epoch.validation.loss); }};
  }
  std::vector<double> weights() const {
    std::vector<double> all;
    for (const Parameter* parameter : model->parameters())
      for (const double value : parameter->tensor().to_vector()) all.push_back(value);
    return all;
  }
};

/// Images of which one cannot be read, or is read as NaN.
struct Odd final : Dataset {
  Odd(DatasetPtr source, bool reads) : Dataset(source->info()), images(std::move(source)), is_read(reads) {}
  void read_sample(std::int64_t index, Sample& sample) const override {
    if (index == 17 && !is_read) reject("sample 17 is broken");
    images->read(index, sample);
    if (index == 17) sample["images"].fill(std::numeric_limits<float>::quiet_NaN());
  }
  DatasetPtr images;
  bool is_read;
};

}  // namespace

TEST_CASE("cuda: steps are told in order, one step later, before evaluations and at the end") {
  for (const std::int64_t every : {0, 4}) {
    Run usual(
        false, [](std::int64_t step) { return 1e-2 / static_cast<double>(step + 1); }, every);
    CHECK(usual.trainer->run(usual.events()));
    Run late(
        true, [](std::int64_t step) { return 1e-2 / static_cast<double>(step + 1); }, every);
    CHECK(late.trainer->run(late.events()));
    CHECK(late.told == usual.told);
    CHECK(late.weights() == usual.weights());
    CHECK(usual.behind == std::vector<std::int64_t>(12, 0));
    CHECK(late.behind == (every == 0 ? std::vector<std::int64_t>{0, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1, 1}
                                     : std::vector<std::int64_t>{0, 0, 0, 1, 0, 1, 0, 1, 0, 1, 1, 1}));
  }
}

TEST_CASE("cuda: steps that are told later have the same bits with late streams") {
  Run usual(false);
  usual.trainer->run(usual.events());
  const cuda::stand_in::ScheduleScope late(3);
  Run run(true);
  run.trainer->run(run.events());
  CHECK(run.told == usual.told);
  CHECK(run.weights() == usual.weights());
}

TEST_CASE("cuda: a step whose report reads the state is told before the next one begins") {
  Run usual(false), late(true);
  const auto weights_after_5 = [](Run& run) {
    TrainerEvents events = run.events();
    std::vector<double> weights;
    events.after_step = [&](const StepResult&, double, double) {
      if (run.trainer->progress().step == 5) weights = run.weights();
    };
    events.needs_state = [](std::int64_t steps) { return steps == 5; };
    run.trainer->run(events);
    return weights;
  };
  CHECK(weights_after_5(late) == weights_after_5(usual));
  CHECK(late.behind == std::vector<std::int64_t>{0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 1, 1});
}

TEST_CASE("cuda: a run that is stopped has told its last step, and resumes with the same bits") {
  Run usual(false), late(true), resumed(true);
  usual.trainer->run(usual.events());
  TrainerEvents events = late.events();
  events.stop = [&] { return late.begun == 5; };
  CHECK_FALSE(late.trainer->run(events));
  CHECK(late.trainer->progress().step == 5);
  const TemporaryFolder folder;
  late.trainer->save(folder / "checkpoint");
  resumed.trainer->resume(folder / "checkpoint");
  CHECK(resumed.trainer->run(resumed.events()));
  CHECK(resumed.weights() == usual.weights());
}

TEST_CASE("cuda: the step that follows one that is not finite changes no weights") {
  const auto fail_at_5 = [](bool graph) {
    Run run(
        graph, [](std::int64_t) { return 1e-3; }, 0, std::make_shared<Odd>(Run::data(Split::train), true));
    std::string named;
    TrainerEvents events = run.events();
    events.nonfinite = [&](const StepResult& step) {
      named = std::to_string(run.trainer->progress().step) + (step.finite() ? " finite" : " not finite");
    };
    CHECK_THROWS_WITH_AS(run.trainer->run(events), doctest::Contains("step 5: the loss"), Error);
    CHECK(named == "4 not finite");
    return run.weights();
  };
  CHECK(fail_at_5(true) == fail_at_5(false));
}

TEST_CASE("cuda: single steps behind one that is not finite update again") {
  const auto weights = [](bool graph) {
    Run run(graph);
    std::vector<double> updated;
    for (std::int64_t i = 0; i < 8; ++i) {
      std::vector<Batch> batch = run.trainer->next_batch();
      if (i == 4) batch[0]["images"].fill(std::numeric_limits<double>::quiet_NaN());
      const StepResult result = run.trainer->step(std::move(batch), i, 1e-3);
      CHECK(result.finite() == (i != 4));
      CHECK((run.trainer->captured_bytes() > 0) == (graph && (i == 2 || i == 3 || i >= 6)));
      updated.push_back(result.updated ? 1 : 0);
    }
    CHECK(updated == std::vector<double>{1, 1, 1, 1, 0, 1, 1, 1});
    return run.weights();
  };
  CHECK(weights(true) == weights(false));
}

TEST_CASE("cuda: steps before a sample that cannot be read are told") {
  const auto read_until_broken = [](bool graph) {
    Run run(
        graph, [](std::int64_t) { return 1e-3; }, 0, std::make_shared<Odd>(Run::data(Split::train), false));
    CHECK_THROWS_WITH_AS(run.trainer->run(run.events()), doctest::Contains("sample 17"), Error);
    CHECK(run.trainer->progress().step == 4);
    return run.told;
  };
  CHECK(read_until_broken(true) == read_until_broken(false));
}

}  // namespace lacuna
