// Training over several ranks, which are threads here: the bits of one process that accumulates.
#include "autograd/policy.h"
#include "core/parallel.h"
#include "core/stand_in/fibers.h"
#include "data/pipeline.h"
#include "models/registry.h"
#include "models/trainer.h"
#include "nn/norm.h"
#include "tests/temporary_folder.h"
#include "tests/thread_ranks.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace lacuna {
namespace {

struct Case {
  std::string name;
  std::string model = "vit";
  std::vector<HyperParameter> hyper_parameters{};
  std::string policy = "exact", optimizer = "adamw";
  OptionValues policy_settings{};
  StepOptions step{};
  std::int64_t epochs = 2;
  bool shard = false, sync_batch_norm = false, mixes = false;
  std::int64_t batch = 8;
  bool on_cuda = false;  // rank r on cuda:r
};

std::vector<HyperParameter> tiny_vit() {
  return {{"image_size", std::int64_t{8}}, {"patch_size", std::int64_t{4}}, {"embed_dim", std::int64_t{8}},
          {"depth", std::int64_t{2}},      {"num_heads", std::int64_t{2}},  {"num_classes", std::int64_t{10}},
          {"drop_path_rate", 0.2},         {"proj_drop_rate", 0.1}};
}

std::vector<HyperParameter> tiny_resnet() {
  return {{"image_size", std::int64_t{8}},
          {"block", "basic"},
          {"layers", std::vector<std::int64_t>{1}},
          {"channels", std::vector<std::int64_t>{8}},
          {"stem", "cifar"},
          {"stem_width", std::int64_t{8}},
          {"num_classes", std::int64_t{10}}};
}

/// Two epochs of three steps of 8 samples, of which `accumulate` on one rank are one after another. 11 samples are
/// evaluated, so that the last batch is not full.
struct Run {
  std::unique_ptr<Communicator> gpus;  // of several ranks on cuda
  std::unique_ptr<Model> model;
  std::unique_ptr<Task> task;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<MemoryPolicy> policy;
  std::unique_ptr<WeightAverage> average;
  std::unique_ptr<Trainer> trainer;

  /// `seed` of the initial weights.
  Run(const Case& c, Communicator& ranks, std::int64_t accumulate, std::uint64_t seed = 3) {
    const Device device = c.on_cuda ? Device{DeviceKind::cuda, static_cast<std::uint8_t>(ranks.rank())} : Device::cpu;
    model = build_model(c.model, c.hyper_parameters.empty() ? tiny_vit() : c.hyper_parameters,
                        {.device = device, .seed = seed});
    task = make_task("classification", {{"label_smoothing", 0.1}}, *model);
    optimizer = make_optimizer(c.optimizer, {}, *model,
                               {.rank = c.shard ? ranks.rank() : 0, .ranks = c.shard ? ranks.size() : 1});
    if (c.on_cuda && ranks.size() > 1) gpus = device_ranks(device, ranks);
    if (c.sync_batch_norm)
      for (Module* const module : model->modules())
        if (auto* const norm = dynamic_cast<nn::BatchNorm2d*>(module)) norm->synchronize(gpus ? *gpus : ranks);
    policy = make_policy(c.policy, c.policy_settings);
    average = c.shard ? std::make_unique<WeightAverage>(*model, *optimizer, ranks, 0.9, AverageWarmup::tensorflow)
                      : std::make_unique<WeightAverage>(*model, 0.9);
    trainer = std::make_unique<Trainer>(
        TrainedState{
            .model = *model, .optimizer = *optimizer, .policy = *policy, .average = average.get(), .ranks = ranks},
        *task,
        batches(Split::train, ranks, c.batch,
                c.mixes ? std::make_shared<const Mixing>(
                              MixOptions{.mixup = 0.8, .cutmix = 1, .parts = accumulate, .classes = 10})
                        : nullptr),
        batches(Split::validation, ranks, c.batch / accumulate),
        TrainerOptions{
            .epochs = c.epochs,
            .accumulate = accumulate,
            .learning_rate = make_schedule("constant", {}, {.lr = 1e-2, .total_steps = 6, .steps_per_epoch = 3}),
            .step = c.step});
  }

  static Batches batches(Split split, Communicator& ranks, std::int64_t size,
                         std::shared_ptr<const Mixing> mixing = nullptr) {
    const DatasetPtr images =
        open_dataset("shapes", {.split = split, .train_size = 26, .validation_size = 11, .image_size = 8});
    const DatasetPtr ready = transform(images, image_transforms(images->info(), {.image_size = 8}), 1);
    const bool training = split == Split::train;
    return {training ? shuffle(ready, 1) : ready,
            {.size = size, .drop_last = training, .rank = ranks.rank(), .ranks = ranks.size(), .mixing = mixing}};
  }

  std::map<std::string, std::vector<double>> weights() const {
    std::map<std::string, std::vector<double>> all;
    for (const Parameter* parameter : model->parameters()) all[parameter->path()] = parameter->tensor().to_vector();
    for (const Optimizer::StateTensor& state : optimizer->state()) all[state.name] = state.tensor.to_vector();
    return all;
  }
};

/// The results of a run.
struct Outcome {
  std::map<std::string, std::vector<double>> weights;
  std::vector<double> losses;  // of the steps and evaluations, and the norms of gradients
  std::optional<Evaluation> last;
  std::int64_t captured = 0;  // steps
  bool operator==(const Outcome&) const = default;
};

Outcome train(Run& run) {
  Outcome outcome;
  CHECK(run.trainer->run(
      {.after_step =
           [&](const StepResult& result, double, double) {
             outcome.losses.insert(outcome.losses.end(), {result.loss, result.gradient_norm, result.totals.loss_sum});
             outcome.captured += run.trainer->captured_bytes() > 0 ? 1 : 0;
           },
       .after_epoch =
           [&](const EpochResult& epoch) {
             outcome.losses.push_back(epoch.validation.loss);
             outcome.losses.push_back(epoch.without_average->loss);
           }}));
  outcome.weights = run.weights();
  outcome.last = run.trainer->progress().last;
  return outcome;
}

Outcome alone(const Case& c, std::int64_t accumulate) {
  Run run(c, single_process(), accumulate);
  return train(run);
}

void check_ranks(const Case& c, int size) {
  CAPTURE(c.name);
  CAPTURE(size);
  const Outcome expected = alone(c, size);
  test::run_ranks(size, [&](Communicator& ranks) {
    Run run(c, ranks, 1, 3 + static_cast<std::uint64_t>(ranks.rank()));  // rank 0 has the say
    const Outcome got = train(run);
    CHECK(got.losses == expected.losses);
    CHECK(got.last == expected.last);
    CHECK(got.weights == expected.weights);
    CHECK(got.captured == (c.on_cuda ? 4 : 0));  // of six; two come before the first
  });
}

}  // namespace

TEST_CASE("ranks: 2 and 4 have the bits of one process that accumulates as many micro-batches") {
  const ThreadCountScope one(1);
  const ExchangeOptions small_buckets{.bucket_bytes = 512, .first_bucket_bytes = 64};
  const std::vector<Case> cases{
      {.name = "AdamW"},
      {.name = "SGD, parameters that span several buckets", .optimizer = "sgd", .step = {.exchange = small_buckets}},
      {.name = "LAMB, clipped by the norm", .optimizer = "lamb", .step = {.clipping = {.norm = 0.1}}},
      {.name = "Lion in backward", .optimizer = "lion", .step = {.in_backward = true, .exchange = small_buckets}},
      {.name = "Adan in 4 bits", .policy = "fixed", .optimizer = "adan", .policy_settings = {{"bits", 4.0}}},
      {.name = "mixup and CutMix", .mixes = true},
      {.name = "clipped by value, in backward", .step = {.clipping = {.value = 1e-3}, .in_backward = true}},
  };
  for (const Case& c : cases)
    for (const int size : {2, 4}) check_ranks(c, size);
}

TEST_CASE("ranks: in backward with the norm of all gradients, which takes two passes") {
  const ThreadCountScope one(1);
  // One process accumulates without the two passes.
  const Case c{.name = "in backward", .step = {.clipping = {.norm = 0.1}, .in_backward = true}};
  Case apart = c;
  apart.step.in_backward = false;
  const Outcome expected = alone(apart, 2);
  test::run_ranks(2, [&](Communicator& ranks) {
    Run run(c, ranks, 1);
    CHECK(train(run).weights == expected.weights);
  });
}

TEST_CASE("ranks: batch norm's running statistics are those of rank 0 in evaluation") {
  const ThreadCountScope one(1);
  const Case c{.name = "ResNet", .model = "resnet", .hyper_parameters = tiny_resnet(), .optimizer = "sgd"};
  const Outcome expected = alone(c, 2);
  std::vector<Outcome> got(2);
  test::run_ranks(2, [&](Communicator& ranks) {
    Run run(c, ranks, 1);
    got[static_cast<std::size_t>(ranks.rank())] = train(run);
  });
  CHECK(got[0].weights == expected.weights);
  CHECK(got[0] == got[1]);
}

TEST_CASE("ranks: each accumulates without sending, and all have the same bits") {
  const ThreadCountScope one(1);
  std::vector<Outcome> got(2);
  test::run_ranks(2, [&](Communicator& ranks) {
    Run run({.name = "accumulating"}, ranks, 2);
    got[static_cast<std::size_t>(ranks.rank())] = train(run);
  });
  CHECK(got[0] == got[1]);
  const Outcome expected = alone({.name = "accumulating"}, 4);
  for (const auto& [name, values] : expected.weights)
    for (std::size_t i = 0; i < values.size(); ++i)
      CHECK(got[0].weights.at(name)[i] == doctest::Approx(values[i]).epsilon(0.02));
}

namespace {

/// Checks that all values of this rank equal those in `whole`.
void check_part_of(const std::map<std::string, std::vector<double>>& part,
                   const std::map<std::string, std::vector<double>>& whole) {
  for (const auto& [name, values] : part) {
    CAPTURE(name);
    CHECK(values == whole.at(name));
  }
}

}  // namespace

TEST_CASE("ranks: the optimizer's state in parts gives the same bits, and goes on with any number of ranks") {
  const ThreadCountScope one(1);
  const std::vector<Case> cases{
      {.name = "AdamW", .shard = true},
      {.name = "LAMB, clipped", .optimizer = "lamb", .step = {.clipping = {.norm = 0.1}}, .shard = true},
      {.name = "SGD in backward", .optimizer = "sgd", .step = {.in_backward = true}, .shard = true},
      {.name = "Muon in backward", .optimizer = "muon", .step = {.in_backward = true}, .shard = true},
      {.name = "Adafactor", .optimizer = "adafactor", .shard = true},
      {.name = "AdamW, gradients too", .step = {.clipping = {.norm = 0.1}, .shard_gradients = true}, .shard = true},
      {.name = "gradients in backward",
       .optimizer = "lion",
       .step = {.in_backward = true,
                .shard_gradients = true,
                .exchange = {.bucket_bytes = 512, .first_bucket_bytes = 64}},
       .shard = true}};
  for (const Case& c : cases) {
    CAPTURE(c.name);
    const test::TemporaryFolder folder;
    const Outcome expected = alone(c, 4);
    std::int64_t of_ranks = 0, of_one = 0;
    std::mutex mutex;
    test::run_ranks(4, [&](Communicator& ranks) {
      Run run(c, ranks, 1);
      CHECK_FALSE(run.trainer->run({.stop = [&] { return run.trainer->progress().step == 4; }}));
      run.trainer->save(folder / "saved");
      train(run);
      check_part_of(run.weights(), expected.weights);
      CHECK(run.trainer->progress().last == expected.last);  // of the average, of which each has a part
      const std::lock_guard lock(mutex);
      for (const Optimizer::StateTensor& state : run.optimizer->state()) of_ranks += state.tensor.bytes();
    });
    Run resumed(c, single_process(), 4);
    for (const Optimizer::StateTensor& state : resumed.optimizer->state()) of_one += state.tensor.bytes();
    CHECK(of_ranks == of_one);
    resumed.trainer->resume(folder / "saved");
    train(resumed);
    CHECK(resumed.weights() == expected.weights);
    test::run_ranks(2, [&](Communicator& ranks) {
      Run run(c, ranks, 2);
      run.trainer->resume(folder / "saved");
      CHECK(run.trainer->progress().step == 4);
      train(run);
    });
  }
}

TEST_CASE("ranks: on cuda they have the bits of one process, too") {
  const ThreadCountScope one(1);
  const ExchangeOptions small_buckets{.bucket_bytes = 512, .first_bucket_bytes = 64};
  const std::vector<Case> cases{
      {.name = "AdamW", .step = {.exchange = small_buckets}, .on_cuda = true},
      {.name = "Lion in backward", .optimizer = "lion", .step = {.in_backward = true}, .on_cuda = true},
      {.name = "ResNet",
       .model = "resnet",
       .hyper_parameters = tiny_resnet(),
       .policy = "mesa",
       .optimizer = "sgd",
       .sync_batch_norm = true,
       .on_cuda = true}};
  const Case in_parts{.name = "gradients and LAMB's state in parts",
                      .optimizer = "lamb",
                      .step = {.clipping = {.norm = 0.1}, .shard_gradients = true, .exchange = small_buckets},
                      .shard = true,
                      .on_cuda = true};
  for (const std::uint64_t schedule : {2, 3}) {  // streams run at once, and late
    const cuda::stand_in::ScheduleScope scope(schedule);
    check_ranks(cases[0], 2);
    check_ranks(cases[1], 2);
    const Outcome expected = alone(in_parts, 2);
    std::vector<Outcome> synchronized(2);
    test::run_ranks(2, [&](Communicator& ranks) {
      Run run(in_parts, ranks, 1);
      CHECK(train(run).captured == 4);
      check_part_of(run.weights(), expected.weights);
      Run resnet(cases[2], ranks, 1);
      synchronized[static_cast<std::size_t>(ranks.rank())] = train(resnet);
    });
    CHECK(synchronized[0] == synchronized[1]);
  }
}

TEST_CASE("ranks: 3 go on with the state that 4 wrote in parts, as with that of one process") {
  const ThreadCountScope one(1);
  const Case c{.name = "AdamW", .shard = true, .batch = 12};
  const test::TemporaryFolder folder;
  const auto stop_and_save = [&](Run& run, const std::string& name) {
    CHECK_FALSE(run.trainer->run({.stop = [&] { return run.trainer->progress().step == 3; }}));
    run.trainer->save(folder / name);
  };
  test::run_ranks(4, [&](Communicator& ranks) {
    Run run(c, ranks, 1);
    stop_and_save(run, "from_four");
  });
  Run run(c, single_process(), 4);
  stop_and_save(run, "from_one");
  std::map<std::string, Outcome> got;
  std::mutex mutex;
  for (const std::string from : {"from_four", "from_one"})
    test::run_ranks(3, [&](Communicator& ranks) {
      Run resumed(c, ranks, 1);
      resumed.trainer->resume(folder / from);
      const Outcome outcome = train(resumed);
      const std::lock_guard lock(mutex);
      got[fmt::format("{}, rank {}", from, ranks.rank())] = outcome;
    });
  for (int rank = 0; rank < 3; ++rank)
    CHECK(got.at(fmt::format("from_four, rank {}", rank)) == got.at(fmt::format("from_one, rank {}", rank)));
}

TEST_CASE("ranks: in parts, with the norm of all gradients in backward, and frozen parameters that are trained later") {
  const ThreadCountScope one(1);
  const Case c{.name = "in backward",
               .step = {.clipping = {.norm = 0.1}, .in_backward = true, .shard_gradients = true},
               .shard = true};
  Case apart = c;
  apart.step = {.clipping = {.norm = 0.1}};
  apart.shard = false;
  const Outcome expected = alone(apart, 2);
  test::run_ranks(2, [&](Communicator& ranks) {
    Run run(c, ranks, 1);
    train(run);
    check_part_of(run.weights(), expected.weights);
  });
  // Parameters of which a checkpoint has no state are counted on the ranks that hold them.
  const test::TemporaryFolder folder;
  const auto freeze = [](Run& run, bool is_frozen) {
    for (Parameter* const parameter : run.model->parameters())
      if (parameter->path().starts_with("blocks.0.")) parameter->set_trainable(!is_frozen);
  };
  std::int64_t frozen = 0;
  {
    Run run(apart, single_process(), 2);
    freeze(run, true);
    for (const Parameter* const parameter : run.model->parameters()) frozen += parameter->trainable() ? 0 : 1;
    const std::unique_ptr<Optimizer> without = make_optimizer("adamw", {}, *run.model, {});
    write_checkpoint(folder / "frozen",
                     {.model = *run.model, .optimizer = *without, .policy = *run.policy, .average = run.average.get()},
                     {});
  }
  test::run_ranks(2, [&](Communicator& ranks) {
    Run run(c, ranks, 1);
    CHECK(run.trainer->resume(folder / "frozen") == frozen);
  });
}

TEST_CASE("ranks: every optimizer under every kind of policy has the bits of one process") {
  const ThreadCountScope one(1);
  for (const std::string& optimizer : optimizers().names()) {
    const Case exact{.name = optimizer, .optimizer = optimizer, .epochs = 1};
    check_ranks(exact, 2);
    Case quantized = exact;
    quantized.policy = "fixed";
    quantized.policy_settings = {{"bits", 4.0}};
    check_ranks(quantized, 2);
    // All ranks use the ranges learned by rank 0, while a single process learns from all samples.
    Case learning = exact;
    learning.policy = "mesa";
    std::vector<Outcome> got(2);
    test::run_ranks(2, [&](Communicator& ranks) {
      Run run(learning, ranks, 1);
      got[static_cast<std::size_t>(ranks.rank())] = train(run);
    });
    CHECK(got[0] == got[1]);
  }
}

TEST_CASE("ranks: in 8 bits all ranks have the same weights, close to those of the exact exchange") {
  const ThreadCountScope one(1);
  const Case exact{.name = "exact", .optimizer = "sgd"};
  Case rounded = exact;
  rounded.step.exchange.in_8_bits = true;
  const Outcome expected = alone(exact, 2);
  std::vector<Outcome> got(2);
  test::run_ranks(2, [&](Communicator& ranks) {
    Run run(rounded, ranks, 1);
    got[static_cast<std::size_t>(ranks.rank())] = train(run);
  });
  CHECK(got[0] == got[1]);
  Case twice = rounded;  // two backward passes would add the rounding error twice
  twice.step.in_backward = true;
  twice.step.clipping.norm = 0.1;
  CHECK_THROWS_WITH_AS(alone(twice, 1), doctest::Contains("8 bits"), Error);
  double error = 0, change = 0;
  Run start(exact, single_process(), 2);
  const auto initial = start.weights();
  for (const Parameter* const parameter : start.model->parameters()) {
    const std::string name = parameter->path();
    for (std::size_t i = 0; i < initial.at(name).size(); ++i) {
      error += std::pow(got[0].weights.at(name)[i] - expected.weights.at(name)[i], 2);
      change += std::pow(expected.weights.at(name)[i] - initial.at(name)[i], 2);
    }
  }
  CHECK(std::sqrt(error) < 0.1 * std::sqrt(change));
}

TEST_CASE("ranks: synchronized batch norm has the statistics of the whole batch") {
  const ThreadCountScope one(1);
  Case c{.name = "ResNet",
         .model = "resnet",
         .hyper_parameters = tiny_resnet(),
         .optimizer = "sgd",
         .sync_batch_norm = true};
  const auto values = [](Run& run) {
    train(run);
    std::map<std::string, std::vector<double>> all = run.weights();
    for (const Buffer* buffer : run.model->buffers()) all[buffer->path()] = buffer->tensor().to_vector();
    return all;
  };
  Run whole(c, single_process(), 1);
  const auto expected = values(whole);
  for (const int size : {2, 4, -2}) {  // -2: two on cuda
    c.on_cuda = size < 0;
    std::vector<std::map<std::string, std::vector<double>>> got(static_cast<std::size_t>(std::abs(size)));
    test::run_ranks(std::abs(size), [&](Communicator& ranks) {
      Run run(c, ranks, 1);
      got[static_cast<std::size_t>(ranks.rank())] = values(run);
    });
    for (const auto& of_rank : got) CHECK(of_rank == got[0]);
    for (const auto& [name, wanted] : expected) {
      CAPTURE(name);
      for (std::size_t i = 0; i < wanted.size(); ++i)
        CHECK(got[0].at(name)[i] == doctest::Approx(wanted[i]).epsilon(1e-3));
    }
  }
}

TEST_CASE("ranks: a run goes on with another number of ranks as if it had never stopped") {
  const ThreadCountScope one(1);
  const Case c{.name = "resumed", .policy = "mesa"};
  const Case exact{.name = "resumed"};
  const test::TemporaryFolder folder;
  const auto stop_and_save = [&](Run& run, const std::string& name) {
    CHECK_FALSE(run.trainer->run({.stop = [&] { return run.trainer->progress().step == 4; }}));
    run.trainer->save(folder / name);
  };
  const Outcome expected = alone(exact, 2);
  test::run_ranks(2, [&](Communicator& ranks) {
    Run run(exact, ranks, 1);
    stop_and_save(run, "from_two");
  });
  Run from_one(exact, single_process(), 2);
  stop_and_save(from_one, "from_one");
  Run to_one(exact, single_process(), 2);
  to_one.trainer->resume(folder / "from_two");
  train(to_one);
  CHECK(to_one.weights() == expected.weights);
  test::run_ranks(2, [&](Communicator& ranks) {
    Run run(exact, ranks, 1);
    run.trainer->resume(folder / "from_one");
    train(run);
    CHECK(run.weights() == expected.weights);
  });
  // The policy's learned state is shared, so that all ranks continue with the state in the checkpoint.
  std::map<std::string, std::vector<double>> whole;
  test::run_ranks(2, [&](Communicator& ranks) {
    Run run(c, ranks, 1);
    train(run);
    if (ranks.rank() == 0) whole = run.weights();
  });
  test::run_ranks(2, [&](Communicator& ranks) {
    Run run(c, ranks, 1);
    stop_and_save(run, "mesa");
    ranks.barrier();
    Run resumed(c, ranks, 1);
    resumed.trainer->resume(folder / "mesa");
    train(resumed);
    CHECK(resumed.weights() == whole);
  });
}

TEST_CASE("ranks: a stop that one rank is asked for stops all after the same step") {
  const ThreadCountScope one(1);
  test::run_ranks(2, [&](Communicator& ranks) {
    Run run({.name = "stopped"}, ranks, 1);
    const auto asked = [&] { return ranks.rank() == 1 && run.trainer->progress().step == 2; };
    CHECK_FALSE(run.trainer->run({.stop = asked}));
    CHECK(run.trainer->progress().step == 2);
  });
}

TEST_CASE("ranks: models that differ are refused") {
  test::run_ranks(2, [&](Communicator& ranks) {
    Case c{.name = "another", .hyper_parameters = tiny_vit()};
    if (ranks.rank() == 1) c.hyper_parameters[2] = {"embed_dim", std::int64_t{16}};
    CHECK_THROWS_AS(Run(c, ranks, 1), Error);
  });
}

}  // namespace lacuna
