// GACT's own measurement of what a tensor's bits are worth: passes that draw its codes anew.
#include "apps/measure.h"
#include "apps/resolve.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace lacuna::apps {
namespace {

Configuration configured(const std::string& model, bool by_draws) {
  return resolve(parse_configuration(
      fmt::format("model: {}\nmemory: {{policy: adaptive, bits: 4, by_draws: {}}}\ntrain: {{batch_size: 8}}\n", model,
                  by_draws),
      "a.yaml"));
}

std::map<std::string, std::vector<double>> state_of(const Training& training) {
  std::map<std::string, std::vector<double>> state;
  for (const auto& [name, values] : training.policy().state()) state[name] = values.to_vector();
  return state;
}

constexpr int sensitivity = 2, bits = 4;  // places in the state of a tensor

}  // namespace

TEST_CASE("draw study: agrees with the measurement in backward, which takes one pass") {
  for (const char* model : {"{name: vit_cifar, num_classes: 10, depth: 3, embed_dim: 48, num_heads: 3}",
                            "{name: resnet20, num_classes: 10, zero_init_last: false}"}) {
    INFO(std::string(model));
    std::map<std::string, std::vector<double>> found[2];
    for (const bool by_draws : {false, true}) {
      Training training(configured(model, by_draws), Device::cpu);
      training.step(made_up_batch(configured(model, by_draws), training.model()), 0, 0.01);
      found[by_draws ? 1 : 0] = state_of(training);
    }
    int tensors = 0, near = 0;
    for (const auto& one : found[1]) {
      const std::string& name = one.first;
      const std::vector<double>& drawn = one.second;
      if (!name.starts_with("tensor ")) continue;
      const double backward = found[0].at(name)[sensitivity];
      ++tensors;
      INFO(name, ": ", backward, " in backward, ", drawn[sensitivity], " by draws");
      CHECK(drawn[sensitivity] < 16 * backward);
      CHECK(backward < 16 * drawn[sensitivity]);
      if (drawn[sensitivity] < 2 * backward && backward < 2 * drawn[sensitivity]) ++near;
    }
    CHECK(tensors > 8);
    CHECK(4 * near > 3 * tensors);
  }
}

TEST_CASE("draw study: leaves no trace but the bits") {
  const Configuration with = configured("{name: resnet20, num_classes: 10}", true);
  Training training(with, Device::cpu);
  const std::vector<MicroBatch> batch = made_up_batch(with, training.model());
  const auto buffers = [&] {
    std::vector<std::vector<double>> values;
    for (const Buffer* buffer : training.model().buffers()) values.push_back(buffer->tensor().to_vector());
    return values;
  };
  const auto before = buffers();
  training.model().set_training(true);
  random_state() = {.seed = 1, .step = 0};
  study(training, batch.front(), training.policy());
  CHECK(buffers() == before);
  for (const Parameter* parameter : training.model().parameters()) CHECK(!parameter->grad().defined());
  CHECK(at(ledger(Device::cpu).live(), Purpose::saved) == 0);
  // The bits differ by what they are worth, within the average.
  int fewest = 8, most = 1;
  for (const auto& [name, values] : state_of(training)) {
    if (!name.starts_with("tensor ")) continue;
    fewest = std::min(fewest, static_cast<int>(values[bits]));
    most = std::max(most, static_cast<int>(values[bits]));
  }
  CHECK(fewest < most);
  // Asked once: the next pass is an ordinary one.
  training.step(batch, 0, 0.01);
  CHECK(training.policy().draw_study() == nullptr);
}

}  // namespace lacuna::apps
