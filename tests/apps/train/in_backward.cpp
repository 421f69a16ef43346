// Parameters updated in backward: the same bits as all at once, with fewer gradients.
#include "apps/config/resolve.h"
#include "apps/train/measure.h"

#include <doctest/doctest.h>

#include <fmt/ranges.h>

using namespace lacuna;

namespace lacuna::apps {
namespace {

constexpr std::string_view vit =
    "model: {name: vit, image_size: 16, patch_size: 4, embed_dim: 24, depth: 3, num_heads: 3, num_classes: 10,\n"
    "        proj_drop_rate: 0.1, drop_path_rate: 0.1}\n"
    "train: {batch_size: 4, threads: 1}\n";
constexpr std::string_view resnet =
    "model: {name: resnet, image_size: 16, block: basic, layers: [1, 1], channels: [8, 16], stem: cifar,\n"
    "        stem_width: 8, num_classes: 10}\n"
    "train: {batch_size: 4, threads: 2}\n";

struct Outcome {
  std::vector<std::vector<double>> values;  // parameters, buffers and state after each step
  std::vector<double> losses, norms;
  std::int64_t gradients = 0;  // bytes at their highest
  bool operator==(const Outcome& other) const {
    return values == other.values && losses == other.losses && norms == other.norms;
  }
};

Outcome train(std::string_view text, std::vector<std::string> overrides) {
  const Experiment configuration = resolve(parse_configuration(std::string(text), "test", overrides));
  Setup setup(configuration, Device::cpu);
  ledger(Device::cpu).reset_peak();
  Outcome outcome;
  for (int step = 0; step < 3; ++step) {
    const StepResult done = setup.trainer().step(example(configuration, setup), step, 1e-2);
    outcome.losses.push_back(done.loss);
    outcome.norms.push_back(done.gradient_norm);
    for (const Parameter* parameter : setup.model().parameters()) {
      CHECK((!parameter->trainable() || !parameter->grad().defined()));
      outcome.values.push_back(parameter->tensor().to_vector());
    }
    for (const Buffer* buffer : setup.model().buffers()) outcome.values.push_back(buffer->tensor().to_vector());
    for (const auto& [name, tensor] : setup.optimizer().state()) outcome.values.push_back(tensor.to_vector());
  }
  outcome.gradients = at(ledger(Device::cpu).highest(), Purpose::gradients);
  return outcome;
}

}  // namespace

TEST_CASE("in backward: the same bits as all at once, whatever else is asked for") {
  const std::vector<std::vector<std::string>> policies{
      {"memory.policy=keep"},
      {"memory.policy=exact"},
      {"memory.policy=mesa"},
      {"memory.policy=adaptive", "memory.measure_every=2"},
      {"memory.policy=fixed", "memory.recompute=[\"*\"]"},
      {"memory.policy=adaptive", "memory.measure_every=2", "memory.recompute=[\"*\", \"*.[0-9]\"]"},
  };
  const std::vector<std::vector<std::string>> options{
      {},
      {"train.clip_norm=0.1"},
      {"train.clip_parameter_norm=0.01"},
      {"train.clip_value=1e-3"},
      {"train.accumulate=2"},
      {"train.accumulate=2", "train.clip_norm=0.1"},
      {"optimizer.gradients=bf16", "optimizer.state=int8", "train.clip_norm=0.1"},
      {"optimizer.name=lamb", "train.ema_decay=0.9"},
      {"optimizer={name: adafactor, beta1: 0.9}", "train.clip_norm=0.1"},
      {"optimizer={name: sgd, momentum: 0.9}", "freeze.freeze=[\"*bias\"]"},
  };
  // Every pair of a model, a policy and an option.
  for (std::size_t i = 0; i < policies.size(); ++i)
    for (std::size_t j = 0; j < options.size(); ++j) {
      const std::string_view model = (i + j) % 2 == 0 ? vit : resnet;
      const std::vector<std::string>& option = options[j];
      std::vector<std::string> overrides = policies[i];
      overrides.insert(overrides.end(), option.begin(), option.end());
      INFO(model.substr(14, 6), " ", fmt::format("{}", fmt::join(overrides, " ")));
      const Outcome together = train(model, overrides);
      overrides.emplace_back("optimizer.in_backward=true");
      const Outcome apart = train(model, overrides);
      CHECK(apart == together);
      if (option.empty() || option.front() != "train.accumulate=2") CHECK(2 * apart.gradients < together.gradients);
    }
}

TEST_CASE("in backward: a gradient that is not finite ends the step with its parameter's name") {
  const Experiment configuration = resolve(parse_configuration(std::string(vit), "test", {}));
  for (const bool in_backward : {false, true}) {
    Experiment changed = configuration;
    changed.optimizer.in_backward = in_backward;
    Setup setup(changed, Device::cpu);
    const std::vector<Batch> batch = example(changed, setup);
    // The stream before the first norm is zero, so that the huge scale behind it is not seen in forward; backward
    // multiplies by it.
    std::vector<double> head;
    for (Parameter* parameter : setup.model().parameters()) {
      const std::string& path = parameter->path();
      if (path == "cls_token" || path == "pos_embed" || path.starts_with("patch_embed")) parameter->tensor().fill(0);
      if (path == "blocks.0.norm1.weight") parameter->tensor().fill(1e38);
      if (path == "head.weight") head = parameter->tensor().to_vector();
    }
    const StepResult outcome = setup.trainer().step(batch, 0, 1e-2);
    REQUIRE(std::isfinite(outcome.loss));
    CHECK(!outcome.finite());
    CHECK(!outcome.nonfinite.empty());
    CHECK(outcome.updated == in_backward);
    for (const Parameter* parameter : setup.model().parameters()) {
      CHECK(!parameter->grad().defined());
      if (parameter->path() == "head.weight") CHECK((parameter->tensor().to_vector() != head) == in_backward);
    }
  }
}

TEST_CASE("in backward: every gradient of deit_small at once takes no memory, and the plan shows it") {
  const auto plan = [](const std::vector<std::string>& overrides) {
    const std::string text = "model: {name: deit_small_patch16_224}\ntrain: {batch_size: 1}\n";
    return measure(resolve(parse_configuration(text, "test", overrides)), Device::meta);
  };
  const Measurement together = plan({}), apart = plan({"optimizer.in_backward=true"}),
                    clipped = plan({"optimizer.in_backward=true", "train.clip_norm=1"}),
                    half = plan({"optimizer.gradients=bf16"}), state = plan({"optimizer.state=int8"});
  const auto gradients = [](const Measurement& m) { return at(m.memory, Purpose::gradients); };
  const auto parameters = at(together.memory, Purpose::parameters);
  CHECK(gradients(together) == parameters);
  CHECK(gradients(apart) < parameters / 10);  // the largest that exist together, not all
  CHECK(gradients(clipped) < parameters / 10);
  CHECK(gradients(half) == parameters / 2);
  CHECK(apart.peak < together.peak);
  CHECK(at(together.memory, Purpose::optimizer) >= 2 * parameters);
  CHECK(at(state.memory, Purpose::optimizer) < parameters * 53 / 100);
}

}  // namespace lacuna::apps
