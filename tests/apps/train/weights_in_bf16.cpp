// Runs that train weights in bf16.
#include "apps/config/resolve.h"
#include "apps/train/measure.h"
#include "models/io/safetensors.h"
#include "tests/apps/train/train_run.h"

namespace lacuna::test {

namespace {

std::string wide_vit() {
  std::string text(vit);
  return text.replace(text.find("embed_dim: 8"), 12, "embed_dim: 64");
}

}  // namespace

TEST_CASE("train: a run with weights in bf16 goes on to the same bits, and is evaluated as it was trained") {
  const std::vector<std::string> least{"optimizer.state=int8", "optimizer.in_backward=true", "train.accumulate=1"};
  const std::vector<std::string> kahan{"train.weight_rounding=kahan", "optimizer.gradients=bf16"};
  for (const std::vector<std::string>& more : {least, kahan}) {
    const TemporaryFolder folder(wide_vit());
    const auto with = [&](std::vector<std::string> arguments) {
      arguments.emplace_back("train.weights=bf16");
      arguments.insert(arguments.end(), more.begin(), more.end());
      return train(std::move(arguments));
    };
    run(folder, with({"output.dir=whole"}));
    run(folder, with({"output.dir=parts", "train.steps=5"}));
    run(folder, {"train", "--resume", "parts", "train.steps=0"});
    for (const char* const file : {"model.safetensors", "optimizer.safetensors"})
      CHECK(read_file(folder / "whole/last" / file) == read_file(folder / "parts/last" / file));
    const SafetensorsFile stored(folder / "whole/last/model.safetensors");
    std::int64_t in_bf16 = 0;
    for (const SafetensorsEntry& entry : stored.entries()) in_bf16 += entry.dtype == DType::bf16 ? 1 : 0;
    CHECK(in_bf16 == 8);  // four of each block
    const double loss = read_json(folder / "whole/summary.json").at("val_loss");
    CHECK(run(folder, {"eval", "whole/last", "--json", "-"}).json().at("val_loss").get<double>() ==
          doctest::Approx(loss));
  }
}

TEST_CASE("train: weights in bf16 learn as those in f32 do") {
  const TemporaryFolder folder(wide_vit());
  const auto loss = [&](const std::string& weights, const std::string& rounding) {
    std::vector<std::string> arguments{"train.epochs=25", "train.accumulate=1",       "data.augment=none",
                                       "output.dir=r",    "train.weights=" + weights, "optimizer.state=int8"};
    if (!rounding.empty()) arguments.push_back("train.weight_rounding=" + rounding);
    run(folder, train(arguments));
    const double result = read_json(folder / "r/summary.json").at("train_loss");
    fs::remove_all(folder / "r");
    return result;
  };
  const double exact = loss("f32", {});
  CHECK(exact < 1.5);
  CHECK(std::abs(loss("bf16", "stochastic") - exact) < 0.15 * exact);
  CHECK(std::abs(loss("bf16", "kahan") - exact) < 0.15 * exact);
}

TEST_CASE("train: weights in bf16 that have no effect, or an average of them, are refused") {
  const TemporaryFolder folder(vit);
  check_refusals(folder, train({}),
                 {{"train.weights=bf16", "train.weights"},  // all are small
                  {"train.weights=int8", "train.weights"},
                  {"train.weight_rounding=kahan", "train.weights"},
                  {"model.embed_dim=64\ntrain.weights=bf16\ntrain.ema_decay=0.9", "train.ema_decay"}});
}

}  // namespace lacuna::test

namespace lacuna::apps {

TEST_CASE("measure: a step with weights in bf16 takes the planned memory") {
  for (const std::string model : {"{name: vit_cifar, num_classes: 10, depth: 2}", "{name: resnet20, num_classes: 10}"})
    for (const std::string rounding : {"stochastic", "kahan"}) {
      const auto measured = [&](const std::string& weights, Device device) {
        return measure(
            parse_configuration("model: " + model + "\ntrain: {batch_size: 4, threads: 2, weights: " + weights +
                                    (weights == "f32" ? "" : ", weight_rounding: " + rounding) +
                                    "}\noptimizer: {name: adamw, state: int8, gradients: bf16, in_backward: true}\n",
                                "a.yaml"),
            device);
      };
      INFO(model, " ", rounding);
      const Measurement planned = measured("bf16", Device::meta), real = measured("bf16", Device::cpu),
                        exact = measured("f32", Device::meta);
      CHECK(planned.memory == real.memory);
      CHECK(planned.peak == real.peak);
      const StoredWeights& stored = planned.weights.at("bf16");
      CHECK(stored.bytes == 2 * stored.parameters);
      CHECK(at(exact.memory, Purpose::parameters) - at(planned.memory, Purpose::parameters) == stored.bytes);
      CHECK(at(planned.memory, Purpose::optimizer) - at(exact.memory, Purpose::optimizer) ==
            (rounding == "kahan" ? stored.bytes : 0));
    }
}

}  // namespace lacuna::apps
