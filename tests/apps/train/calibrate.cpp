// Calibration before a step: in a pass over part of the batch, or by draws.
#include "apps/config/resolve.h"
#include "apps/train/measure.h"
#include "autograd/policies/adaptive.h"
#include "autograd/tape.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace lacuna::apps {
namespace {

Experiment configured(const std::string& model, bool by_draws, const std::string& more = {}, int batch_size = 16) {
  return resolve(parse_configuration(
      fmt::format(
          "model: {}\nmemory: {{policy: adaptive, bits: 4, by_draws: {}}}\ntrain: {{batch_size: {}, threads: 1}}\n{}",
          model, by_draws, batch_size, more),
      "a.yaml"));
}

std::map<std::string, std::vector<double>> state_of(const Setup& setup) {
  std::map<std::string, std::vector<double>> state;
  for (const auto& [name, values] : setup.policy().state()) state[name] = values.to_vector();
  return state;
}

constexpr int sensitivity = 2, bits = 4;  // places in the state of a tensor

constexpr const char* small_resnet =
    "{name: resnet, num_classes: 10, image_size: 16, block: basic, layers: [1, 1, 1], channels: [16, 32, 64],\n"
    "    stem: cifar, stem_width: 16, zero_init_last: false}";

}  // namespace

TEST_CASE("calibrate: one pass over part of the batch agrees with GACT's passes over all of it") {
  struct Case {
    const char *optimizer, *model;
    int batch_size;
  };
  constexpr const char* vit = "{name: vit_cifar, num_classes: 10, depth: 3, embed_dim: 24, num_heads: 3}";
  constexpr const char* resnet =
      "{name: resnet, num_classes: 10, image_size: 32, block: basic, layers: [1, 1, 1], channels: [16, 32, 64],\n"
      "    stem: cifar, stem_width: 16, zero_init_last: false}";
  for (const auto& [optimizer, model, batch_size] :
       {Case{"adamw", vit, 16}, {"adamw", resnet, 48}, {"sgd", resnet, 16}, {"sgd", vit, 48}}) {
    INFO(std::string(model), " ", std::string(optimizer), " ", batch_size);
    std::map<std::string, double> found[2];
    double all[2] = {};
    for (const bool by_draws : {false, true}) {
      const Experiment with =
          configured(model, by_draws, fmt::format("optimizer: {{name: {}, lr: 0.01}}\n", optimizer), batch_size);
      Setup setup(with, Device::cpu);
      setup.trainer().step(example(with, setup), 0, 0.01);
      for (const auto& [name, values] : state_of(setup)) {
        if (!name.starts_with("tensor ")) continue;
        found[by_draws ? 1 : 0][name] = values[sensitivity];
        all[by_draws ? 1 : 0] += values[sensitivity];
      }
    }
    int tensors = 0, near = 0;
    for (const auto& one : found[1]) {
      const std::string& name = one.first;
      const double drawn = one.second / all[1],
                   backward = found[0].at(name) / all[0];  // shares: bits follow from these
      ++tensors;
      INFO(name, ": ", backward, " in backward, ", drawn, " by draws");
      CHECK(drawn < 16 * backward);
      CHECK(backward < 16 * drawn);
      if (drawn < 2 * backward && backward < 2 * drawn) ++near;
    }
    CHECK(tensors > 8);
    // From a part of two samples norms over the batch have gradients of their own; of 48 it has eight.
    CHECK(4 * near > 3 * tensors);
    if (batch_size == 48) CHECK(8 * near >= 7 * tensors);
  }
}

TEST_CASE("calibrate: a step with calibration takes no more memory than others, from batches of four on") {
  struct Case {
    const char* model;
    std::int64_t batch;
  };
  constexpr const char* vit = "{name: vit_cifar, num_classes: 10, depth: 6, embed_dim: 96, num_heads: 3}";
  constexpr const char* resnet = "{name: resnet20, num_classes: 10}";
  for (const auto& [model, batch] : {Case{vit, 4}, {vit, 8}, {vit, 16}, {vit, 64}, {resnet, 4}, {resnet, 16}}) {
    CAPTURE(model);
    CAPTURE(batch);
    Experiment with = configured(model, false, "");
    with.train.batch_size = batch;
    with.memory.options["bits"] = 2.5;
    Setup setup(with, Device::meta);
    Ledger& account = ledger(Device::meta);
    std::int64_t peaks[2];
    for (std::int64_t step = 0; step < 2; ++step) {
      std::vector<Batch> images = example(with, setup);
      account.reset_peak();
      setup.trainer().step(std::move(images), step, 0.01);
      peaks[step] = account.peak();
    }
    CHECK(peaks[0] <= peaks[1]);
  }
}

TEST_CASE("calibrate: the share of the gradient that is noise of quantization is predicted") {
  for (const double bits : {2.0, 4.0}) {
    CAPTURE(bits);
    Experiment with = configured(small_resnet, true, "optimizer: {name: sgd, lr: 0.01}\n");
    with.memory.options["bits"] = bits;
    Setup setup(with, Device::cpu);
    const Batch batch = example(with, setup).front();
    setup.model().set_training(true);
    Adaptive& adaptive = *adaptive_of(setup.policy());
    CHECK(adaptive.variance_share() == 0);
    const auto gradients = [&](MemoryPolicy& policy, std::uint32_t step) {
      const RandomStateScope random({.seed = 1, .step = step});
      Tape tape(policy);
      const Variable loss = [&] {
        const Recording recording(tape);
        return setup.trainer().loss(batch);
      }();
      tape.backward(loss);
      std::vector<double> all;
      for (Parameter* parameter : setup.model().parameters()) {
        const std::vector<double> own = parameter->grad().to_vector();
        all.insert(all.end(), own.begin(), own.end());
        parameter->set_grad({});
      }
      return all;
    };
    const std::unique_ptr<MemoryPolicy> lossless = make_policy("exact");
    const std::vector<double> exact = gradients(*lossless, 0);
    {
      const RandomStateScope random({.seed = 1, .step = 0});
      CHECK(setup.trainer().calibrate(batch, setup.policy()));
    }
    double square = 0, error = 0;
    constexpr std::uint32_t draws = 4;
    for (std::uint32_t draw = 1; draw <= draws; ++draw) {
      const std::vector<double> noisy = gradients(setup.policy(), draw);
      for (std::size_t i = 0; i < exact.size(); ++i) error += (noisy[i] - exact[i]) * (noisy[i] - exact[i]) / draws;
    }
    for (const double value : exact) square += value * value;
    const double share = adaptive.variance_share();
    CHECK(share > 0.4 * error / square);
    CHECK(share < 2.5 * error / square);
    const TensorFigures figures = adaptive.figures();
    CHECK(figures.size() > 8);
    for (const auto& [key, own] : figures) {
      CHECK(own.at("sensitivity") >= 0);
      CHECK(own.at("bits") >= 1);
    }
  }
}

TEST_CASE("calibrate: works with frozen parameters") {
  for (const char* memory : {"{policy: adaptive, bits: 3}", "{policy: adaptive, bits: 3, by_draws: true}"}) {
    const Experiment with = resolve(parse_configuration(
        fmt::format(
            "model: {{name: vit_cifar, num_classes: 10, depth: 2, embed_dim: 48, num_heads: 3}}\n"
            "memory: {}\ntrain: {{batch_size: 8, threads: 1}}\nfreeze: {{freeze: [\"blocks.0.*\", \"*bias\"]}}\n",
            memory),
        "a.yaml"));
    Setup setup(with, Device::cpu);
    const StepResult outcome = setup.trainer().step(example(with, setup), 0, 0.01);
    CHECK(outcome.finite());
    CHECK(outcome.gradient_norm > 0);
  }
}

TEST_CASE("calibrate: changes nothing but the bits") {
  for (const bool by_draws : {false, true}) {
    const Experiment with = configured(small_resnet, by_draws);
    Setup setup(with, Device::cpu);
    const std::vector<Batch> batch = example(with, setup);
    const auto buffers = [&] {
      std::vector<std::vector<double>> values;
      for (const Buffer* buffer : setup.model().buffers()) values.push_back(buffer->tensor().to_vector());
      return values;
    };
    const auto before = buffers();
    setup.model().set_training(true);
    const RandomStateScope random({.seed = 1, .step = 0});
    CHECK(setup.trainer().calibrate(batch.front(), setup.policy()));
    CHECK(buffers() == before);
    for (const Parameter* parameter : setup.model().parameters()) CHECK(!parameter->grad().defined());
    CHECK(at(ledger(Device::cpu).live(), Purpose::saved) == 0);
    // The bits differ by what they are worth, within the average.
    int fewest = 8, most = 1;
    for (const auto& [name, values] : state_of(setup)) {
      if (!name.starts_with("tensor ")) continue;
      fewest = std::min(fewest, static_cast<int>(values[bits]));
      most = std::max(most, static_cast<int>(values[bits]));
    }
    CHECK(fewest < most);
    // Asked once: the next pass is an ordinary one.
    setup.trainer().step(batch, 0, 0.01);
    CHECK_FALSE(adaptive_of(setup.policy())->calibration_due());
  }
}

}  // namespace lacuna::apps
