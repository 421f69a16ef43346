// The trainer as a program uses it: without a command, a run folder or a configuration.
#include "models/trainer.h"

#include "autograd/policies/adaptive.h"
#include "core/error.h"
#include "data/pipeline.h"
#include "models/registry.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>

#include <limits>
#include <memory>
#include <string>

namespace lacuna {
namespace {

/// A small transformer on drawn shapes: two epochs of five steps.
struct Run {
  std::unique_ptr<Model> model = build_model("vit",
                                             {{"image_size", std::int64_t{8}},
                                              {"patch_size", std::int64_t{4}},
                                              {"embed_dim", std::int64_t{8}},
                                              {"depth", std::int64_t{1}},
                                              {"num_heads", std::int64_t{2}},
                                              {"num_classes", std::int64_t{10}}},
                                             {.seed = 3});
  std::unique_ptr<Task> task = make_task("classification", {{"label_smoothing", 0.1}}, *model);
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<MemoryPolicy> policy;
  std::unique_ptr<WeightAverage> average;
  std::unique_ptr<Trainer> trainer;

  explicit Run(const std::string& memory = "exact", std::string seed = "1", const std::string& optimizer_name = "adamw",
               const TrainerOptions& more = {.epochs = 2}) {
    optimizer = make_optimizer(optimizer_name, {}, *model);
    policy = make_policy(memory);
    average = std::make_unique<WeightAverage>(*model, 0.9);
    trainer = std::make_unique<Trainer>(
        TrainedState{*model, *optimizer, *policy, average.get()}, *task, batches(Split::train),
        batches(Split::validation),
        TrainerOptions{.epochs = more.epochs,
                       .accumulate = 2,
                       .learning_rate = make_schedule("cosine", {{"warmup_epochs", 1.0}},
                                                      {.lr = 1e-2, .total_steps = 10, .steps_per_epoch = 5}),
                       .best_by = more.best_by,
                       .patience = more.patience,
                       .identity = {{"seed", std::move(seed)}}});
  }

  static Batches batches(Split split) {
    const DatasetPtr images =
        open_dataset("shapes", {.split = split, .train_size = 20, .validation_size = 6, .image_size = 8});
    const DatasetPtr ready = transform(images, image_transforms(images->info(), {.image_size = 8}), 1);
    if (split == Split::validation) return {ready, {.size = 4}};
    return {shuffle(ready, 1), {.size = 4, .drop_last = true}};
  }

  std::vector<double> weights() const {
    std::vector<double> all;
    for (const Parameter* parameter : model->parameters()) {
      const std::vector<double> values = parameter->tensor().to_vector();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
};

}  // namespace

TEST_CASE("trainer: a run that is stopped and resumed has the bits of one that is not") {
  for (const std::string memory : {"exact", "mesa"}) {
    for (const std::int64_t stop : {3, 5, 8}) {
      INFO(memory, ", stopped after step ", stop);
      const test::TemporaryFolder folder;
      Run whole(memory), stopped(memory), resumed(memory);
      std::vector<EpochResult> epochs;
      CHECK(whole.trainer->run({.after_epoch = [&](const EpochResult& epoch) { epochs.push_back(epoch); }}));
      REQUIRE(epochs.size() == 2);
      CHECK(epochs[0].is_best);
      CHECK(epochs[0].train.samples == 20);
      CHECK(epochs[0].validation.samples == 6);

      CHECK_FALSE(stopped.trainer->run({.stop = [&] { return stopped.trainer->progress().step == stop; }}));
      stopped.trainer->save(folder / "checkpoint");
      CHECK(resumed.trainer->resume(folder / "checkpoint") == 0);
      CHECK(resumed.trainer->progress().step == stop);
      CHECK(resumed.trainer->run());
      CHECK(resumed.trainer->progress().step == 10);
      CHECK(resumed.weights() == whole.weights());
      CHECK(resumed.trainer->progress().last == whole.trainer->progress().last);
      CHECK(resumed.trainer->progress().train_loss == whole.trainer->progress().train_loss);
    }
  }
}

TEST_CASE("trainer: a checkpoint of another run is refused, and so is a folder that exists") {
  const test::TemporaryFolder folder;
  Run first;
  first.trainer->save(folder / "start");
  Run other("exact", "2");
  CHECK_THROWS_WITH_AS(other.trainer->resume(folder / "start"), doctest::Contains("seed"), Error);
  CHECK_THROWS_AS(other.trainer->resume(folder / "nowhere"), Error);
  CHECK_THROWS_AS(first.trainer->save(folder / "start"), Error);
}

TEST_CASE("trainer: a checkpoint leaves its folder's neighbours alone, with or without a trailing slash") {
  const test::TemporaryFolder folder;
  Run run;
  for (const std::string name : {"a", "b/"}) {
    const std::string neighbour = name.substr(0, 1) + ".tmp";
    std::filesystem::create_directory(folder / neighbour);
    test::write_file(folder / (neighbour + "/notes"), "of the user");
    run.trainer->save(folder / name);
    CHECK(test::read_file(folder / (neighbour + "/notes")) == "of the user");
    run.trainer->resume(folder / name);
  }
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 4);
}

TEST_CASE("trainer: a checkpoint that is refused changes nothing") {
  const test::TemporaryFolder folder;
  Run first;
  first.trainer->run({.stop = [&] { return first.trainer->progress().step == 2; }});
  first.trainer->save(folder / "checkpoint");
  Run other_seed("exact", "2"), other_optimizer("exact", "1", "sgd");
  for (Run* const run : {&other_seed, &other_optimizer}) {
    const std::vector<double> before = run->weights();
    REQUIRE(before != first.weights());
    CHECK_THROWS_AS(run->trainer->resume(folder / "checkpoint"), Error);
    CHECK(run->weights() == before);
    for (const Optimizer::StateTensor& state : run->optimizer->state())
      for (const double value : state.tensor.to_vector()) CHECK(value == 0);
    CHECK(run->trainer->progress().step == 0);
    const WeightAverage::Exchange exchange(run->average.get());
    CHECK(run->weights() == before);
  }
}

TEST_CASE("trainer: a checkpoint for another image size is refused, not resampled") {
  const test::TemporaryFolder folder;
  const auto model = [](std::int64_t image_size, std::uint64_t seed) {
    return build_model("vit",
                       {{"image_size", image_size},
                        {"patch_size", std::int64_t{4}},
                        {"embed_dim", std::int64_t{8}},
                        {"depth", std::int64_t{1}},
                        {"num_heads", std::int64_t{2}},
                        {"num_classes", std::int64_t{10}}},
                       {.seed = seed});
  };
  const std::unique_ptr<Model> small = model(8, 1), large = model(16, 2), same = model(8, 3);
  const std::unique_ptr<MemoryPolicy> policy = make_policy("exact");
  const auto sgd = [](Model& of) { return make_optimizer("sgd", {{"momentum", 0.0}}, of); };
  const auto small_sgd = sgd(*small), large_sgd = sgd(*large), same_sgd = sgd(*same);
  write_checkpoint(folder / "checkpoint", {*small, *small_sgd, *policy, nullptr}, {});
  CHECK_THROWS_WITH_AS(load_checkpoint(folder / "checkpoint", {*large, *large_sgd, *policy, nullptr}),
                       doctest::Contains("pos_embed"), Error);
  load_checkpoint(folder / "checkpoint", {*same, *same_sgd, *policy, nullptr});
}

TEST_CASE("trainer: a loss that is not finite ends the run, and is not counted") {
  Run run;
  run.model->parameters().front()->tensor().fill(std::numeric_limits<double>::quiet_NaN());
  int seen = 0;
  CHECK_THROWS_AS(run.trainer->run({.nonfinite = [&](const StepResult&) { ++seen; }}), Error);
  CHECK(seen == 1);
  CHECK(run.trainer->progress().step == 0);
  CHECK(run.trainer->progress().totals.samples == 0);
}

TEST_CASE("trainer: an adaptive policy is calibrated before the first step") {
  Run run("adaptive");
  CHECK(adaptive_of(*run.policy)->calibration_due());
  int asked = 0;
  CHECK(!run.trainer->run({.stop = [&] { return ++asked > 1; }}));
  CHECK(run.trainer->progress().step == 1);
  CHECK(!adaptive_of(*run.policy)->calibration_due());
}

TEST_CASE("trainer: the best evaluation is that of the metric that was asked for") {
  for (const std::string by : {"", "loss", "accuracy", "top5_accuracy"}) {
    INFO(by);
    Run run("exact", "1", "adamw", {.epochs = 4, .best_by = by});
    std::optional<double> best;
    const BestBy& criterion = run.trainer->best_by();
    CHECK(criterion.name == (by.empty() ? "accuracy" : by));
    CHECK(criterion.higher_is_better == (by != "loss"));
    run.trainer->run({.after_epoch = [&](const EpochResult& epoch) {
      const double value = criterion.value(epoch.validation);
      const bool better = !best || (by == "loss" ? value < *best : value > *best);
      CHECK(epoch.is_best == better);
      if (better) best = value;
    }});
    CHECK(criterion.value(run.trainer->progress().best.value()) == best.value());
  }
  CHECK_THROWS_WITH_AS(Run("exact", "1", "adamw", {.best_by = "f1"}), doctest::Contains("top5_accuracy"), Error);
}

TEST_CASE("trainer: a run without a better evaluation ends early, resumed or not") {
  // In so many epochs on so few samples the validation loss turns up again.
  const TrainerOptions options{.epochs = 60, .best_by = "loss", .patience = 2};
  Run whole("exact", "1", "adamw", options);
  std::vector<bool> best;
  CHECK(whole.trainer->run({.after_epoch = [&](const EpochResult& epoch) { best.push_back(epoch.is_best); }}));
  const std::int64_t epochs = whole.trainer->progress().epochs_evaluated;
  REQUIRE(epochs < 60);
  REQUIRE(epochs > 2);
  CHECK(whole.trainer->out_of_patience());
  CHECK(std::vector(best.end() - 3, best.end()) == std::vector{true, false, false});

  const test::TemporaryFolder folder;
  Run stopped("exact", "1", "adamw", options), resumed("exact", "1", "adamw", options);
  const std::int64_t within = (epochs - 1) * 5 - 2;  // after the best, within the epoch before the last
  CHECK_FALSE(stopped.trainer->run({.stop = [&] { return stopped.trainer->progress().step == within; }}));
  CHECK_FALSE(stopped.trainer->out_of_patience());
  stopped.trainer->save(folder / "checkpoint");
  resumed.trainer->resume(folder / "checkpoint");
  CHECK(resumed.trainer->run());
  CHECK(resumed.trainer->progress().epochs_evaluated == epochs);
  CHECK(resumed.weights() == whole.weights());

  Run patient("exact", "1", "adamw", {.epochs = 60, .best_by = "loss", .patience = 60});
  CHECK(patient.trainer->run());
  CHECK(patient.trainer->progress().epochs_evaluated == 60);
}

}  // namespace lacuna
