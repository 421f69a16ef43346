#include "apps/train/measure.h"

#include "apps/config/resolve.h"
#include "apps/train/fit.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

namespace lacuna::apps {

TEST_CASE("measure: what is planned on meta is what a step takes, for every case that is compared with PyTorch") {
  for (const char* const name : {"deit_tiny", "deit_small", "cifar10_vit", "cifar10_resnet18", "resnet50"}) {
    const std::vector<std::string> overrides{"train.batch_size=2", "train.threads=2"};
    const Experiment configuration =
        resolve(read_configuration(fmt::format("{}/configs/{}.yaml", LACUNA_SOURCE_DIR, name), overrides));
    const Measurement planned = measure(configuration, Device::meta), measured = measure(configuration, Device::cpu);
    INFO(name);
    for (int i = 0; i < purpose_count; ++i) {
      INFO(name_of(static_cast<Purpose>(i)));
      CHECK(planned.memory[static_cast<std::size_t>(i)] == measured.memory[static_cast<std::size_t>(i)]);
    }
    CHECK(planned.peak == measured.peak);
  }
}

TEST_CASE("measure: so it is under policies that code, mask, derive and run again") {
  const std::vector<std::string> memories{"policy: mesa",
                                          "policy: fixed, bits: 8",
                                          "policy: fixed, bits: 4",
                                          "policy: fixed, bits: 2",
                                          "policy: fixed, bits: 4, recompute: [\"{}\"]",
                                          "policy: mesa, recompute: [\"{}\"]"};
  // Every pair of a policy, a precision and a model.
  for (std::size_t i = 0; i < memories.size(); ++i)
    for (const bool half : {false, true}) {
      const bool is_vit = (i % 2 == 0) == half;
      const Experiment with = parse_configuration(
          fmt::format("model: {}\nmemory: {{{}}}\ntrain: {{batch_size: 4, threads: 2, precision: {}}}\n",
                      is_vit ? "{name: vit_cifar, num_classes: 10, depth: 2}" : "{name: resnet20, num_classes: 10}",
                      fmt::format(fmt::runtime(memories[i]), is_vit ? "blocks.*" : "layer?.*"), half ? "bf16" : "f32"),
          "a.yaml");
      INFO(is_vit, " ", memories[i], " ", half);
      const Measurement planned = measure(with, Device::meta), measured = measure(with, Device::cpu);
      CHECK(planned.memory == measured.memory);
      CHECK(planned.peak == measured.peak);
    }
}

TEST_CASE("measure: so it is where a measurement comes due within a step of several parts") {
  for (const char* const by_draws : {"false", "true"}) {
    const Experiment with = parse_configuration(
        fmt::format("model: {{name: vit_cifar, num_classes: 10, depth: 2}}\ntrain: {{batch_size: 12, accumulate: 3, "
                    "threads: 1}}\nmemory: {{policy: adaptive, measure_every: 4, by_draws: {}}}\n",
                    by_draws),
        "a.yaml");
    INFO(by_draws);
    const Measurement planned = measure(with, Device::meta), measured = measure(with, Device::cpu, {.steps = 6});
    CHECK(measured.measuring_seconds > 0);
    // Due after 4 passes, it waits for the 6th: the first of the third step.
    CHECK(measured.measuring_share == measured.measuring_seconds / 2);
    // By bits that were measured, which no plan knows, single tensors take more.
    CHECK(static_cast<double>(measured.peak) < 1.01 * static_cast<double>(planned.peak));
    CHECK(at(measured.memory, Purpose::gradients) == at(planned.memory, Purpose::gradients));
  }
}

TEST_CASE("measure: a chain that is derived from codes takes room for runs, not for a tensor a link") {
  const Experiment with = parse_configuration(
      "model: {name: resnet20, num_classes: 10}\nmemory: {policy: fixed, bits: 4}\ntrain: {batch_size: 128}\n",
      "a.yaml");
  constexpr std::int64_t largest = 128 * 32 * 32 * 16 * 4;  // tensor, bytes
  CHECK(at(measure(with, Device::meta).memory, Purpose::workspace) < 2 * largest);
}

TEST_CASE("measure: the median of an even number of steps is the mean of the two in the middle") {
  const Experiment with =
      resolve(parse_configuration("model: {name: vit_cifar, num_classes: 10, depth: 1, embed_dim: 12, num_heads: 3}\n"
                                  "train: {batch_size: 4}\n",
                                  "a.yaml"));
  const Setup setup(with, Device::cpu);
  const auto times_of = [&](const std::vector<double>& steps, const std::vector<double>& measurements) {
    Measurement measured = describe(with, setup);
    read_times(steps, measurements, setup.policy(), 1, measured);
    return to_json(measured);
  };
  const nlohmann::ordered_json even = times_of({4, 1, 16, 2}, {5, 1});
  CHECK(even.at("step_seconds").at("median") == 3);
  CHECK(even.at("step_seconds").at("measuring") == 3);
  CHECK(even.at("samples_per_second") == doctest::Approx(4.0 / 3));
  CHECK(times_of({7, 1, 2}, {5, 1, 2}).at("step_seconds").at("median") == 2);
}

TEST_CASE("a drawn dataset is drawn at the size that the model takes") {
  const Experiment configuration =
      resolve(parse_configuration("model: {name: vit, image_size: 48, patch_size: 8, embed_dim: 24, depth: 1, "
                                  "num_heads: 3}\ndata: {name: shapes}\n",
                                  "test", {}));
  const DatasetInfo info = describe_dataset(configuration.data.name, dataset_options(configuration, Split::validation));
  CHECK(field_of(info.fields, "images").shape == Shape{48, 48, 3});
}

TEST_CASE("measure: an evaluation has no more images than there are, and is told where it takes the most") {
  const auto planned = [](std::int64_t images, std::int64_t parts) {
    return measure(parse_configuration(
                       fmt::format("model: {{name: vit, image_size: 32, patch_size: 8, embed_dim: 64, depth: 1, "
                                   "num_heads: 2, num_classes: 10}}\ndata: {{name: shapes, val_size: {}}}\n"
                                   "train: {{batch_size: 512, accumulate: {}}}\nmemory: {{policy: fixed, bits: 1}}\n",
                                   images, parts),
                       "a.yaml"),
                   Device::meta);
  };
  const std::int64_t image = 32 * 32 * 3 * 4 + 8;  // with its target
  const std::int64_t waiting = 32 * 32 * 3 + 8;
  CHECK(planned(10, 1).evaluation_ahead == 10 * waiting);
  CHECK(planned(1000, 1).evaluation_ahead == 512 * waiting);
  CHECK(planned(1000, 4).evaluation_ahead == 128 * waiting);
  CHECK(planned(0, 1).evaluation_ahead == 512 * waiting);  // all that the data set has
  CHECK(planned(10, 1).evaluation_peak < planned(1000, 1).evaluation_peak / 4);
  CHECK(!evaluation_is_highest(planned(10, 1)));
  CHECK(evaluation_is_highest(planned(1000, 1)));
  // Two batches are prepared ahead, and a stored sample is read.
  CHECK(highest_need(planned(10, 1)) == planned(10, 1).peak + 2 * 512 * waiting + image);
}

TEST_CASE("recompute: a frozen sequence that nothing trained stands before saves nothing, and runs once") {
  const Experiment with = resolve(
      parse_configuration("model: {name: vit_cifar, num_classes: 10, depth: 3, embed_dim: 48, num_heads: 3}\n"
                          "memory: {recompute: [blocks]}\ntrain: {batch_size: 8}\nfreeze: {train: [\"head*\"]}\n",
                          "a.yaml"));
  Setup setup(with, Device::cpu);
  const StepResult outcome = setup.trainer().step(example(with, setup), 0, 0.01);
  CHECK(outcome.gradient_norm > 0);
  CHECK(outcome.saved_bytes < 8 * 48 * 4 * 4);  // the classifier's input, and little else
}

}  // namespace lacuna::apps
