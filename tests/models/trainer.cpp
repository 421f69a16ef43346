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

  explicit Run(const std::string& memory = "exact", std::string seed = "1",
               const std::string& optimizer_name = "adamw") {
    optimizer = make_optimizer(optimizer_name, {}, *model);
    policy = make_policy(memory);
    average = std::make_unique<WeightAverage>(*model, 0.9);
    trainer = std::make_unique<Trainer>(
        TrainedState{*model, *optimizer, *policy, average.get()}, *task, batches(Split::train),
        batches(Split::validation),
        TrainerOptions{.epochs = 2,
                       .accumulate = 2,
                       .learning_rate = make_schedule("cosine", {{"warmup_epochs", 1.0}},
                                                      {.lr = 1e-2, .total_steps = 10, .steps_per_epoch = 5}),
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
  CHECK_THROWS_AS(run.trainer->run({.nonfinite = [&](const TrainResult&) { ++seen; }}), Error);
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

}  // namespace lacuna
