// Whole models in training: policies agree to the bit, frozen parts stay as they are, meta counts what the CPU holds.
#include "autograd/tape.h"
#include "core/glob.h"
#include "core/parallel.h"
#include "models/io/weights.h"
#include "tests/models/tiny_models.h"

#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

using namespace lacuna;
using namespace lacuna::test;

TEST_CASE("training: recomputed blocks give the same gradients and statistics to the bit, from less") {
  for (const Description& description : block_descriptions()) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      INFO(description.name, " in ", name_of(dtype));
      const Step exact = step(description, "exact", {}, {.dtype = dtype});
      const std::unique_ptr<RuledPolicy> policy = with_rules(make_policy("exact"), {}, {"blocks.*", "layer?.?"});
      const Step recomputed = step(description, *policy, {}, {.dtype = dtype});
      CHECK(recomputed.results == exact.results);
      CHECK(recomputed.saved < exact.saved);
      CHECK(policy->unmatched().size() == 1);  // a model has blocks or layers
    }
  }
}

TEST_CASE("training: regions of several blocks, and regions within regions, save less and change no bit") {
  const std::vector<std::vector<std::string>> regions{
      {"blocks.*", "layer?.?"},                                                      // each block by itself
      {"blocks.0-1", "blocks.2", "layer1.0-1", "layer2.*"},                          // two as one
      {"blocks", "layer?"},                                                          // all as one
      {"blocks", "blocks.*", "*.mlp", "layer?", "layer?.?"},                         // one in the other
      {"blocks.0-1", "blocks.2", "blocks.*", "layer1.0-1", "layer2.*", "layer1.*"},  // blocks within runs of them
      {"*"}};                                                                        // the outermost
  for (const Description& description : block_descriptions()) {
    INFO(description.name);
    const Step exact = step(description, "exact");
    std::vector<std::int64_t> saved;
    for (const std::vector<std::string>& patterns : regions) {
      INFO("recomputed: ", fmt::format("{}", fmt::join(patterns, " ")));
      const std::unique_ptr<RuledPolicy> policy = with_rules(make_policy("exact"), {}, patterns);
      const Step recomputed = step(description, *policy);
      CHECK(recomputed.results == exact.results);
      saved.push_back(recomputed.saved);
    }
    CHECK(saved[1] < saved[0]);
    CHECK(saved[2] < saved[1]);
    CHECK(saved[3] == saved[2]);
    CHECK(saved[4] == saved[1]);
    CHECK(saved[5] == saved[2]);
  }
}

TEST_CASE("training: blocks of stages that are recomputed save less and change no bit") {
  for (const Description& description : stage_descriptions()) {
    INFO(description.name);
    const Step exact = step(description, "exact");
    for (const char* const pattern : {"*.blocks.*", "*.blocks", "*.mlp"}) {
      INFO(pattern);
      const std::unique_ptr<RuledPolicy> policy = with_rules(make_policy("exact"), {}, {pattern});
      const Step recomputed = step(description, *policy);
      CHECK(recomputed.results == exact.results);
      CHECK(recomputed.saved < exact.saved);
      CHECK(policy->unmatched().empty());
    }
  }
}

TEST_CASE("training: codes stay near the exact gradients, nearer with more bits, and take what meta predicts") {
  for (const Description& description : descriptions()) {
    INFO(description.name);
    const Step exact = step(description, "exact");
    double last = 1e9;
    for (const double bits : {2.0, 4.0, 8.0}) {
      INFO(bits, " bits");
      const std::unique_ptr<MemoryPolicy> fixed = make_policy("fixed", {{"bits", bits}});
      const Step coded = step(description, *fixed);
      const double error = gradient_error(coded, exact);
      CHECK(coded.results.at("logits") == exact.results.at("logits"));
      CHECK(error < last / 2);
      CHECK(error > 0);
      last = error;
      CHECK(step(description, *fixed, {}, {.device = Device::meta}).saved == coded.saved);
      CHECK(step(description, *fixed).results == coded.results);
    }
    CHECK(last < 0.02);
    const std::unique_ptr<MemoryPolicy> mesa = make_policy("mesa");
    const Step coded = step(description, *mesa);
    CHECK(gradient_error(coded, exact) < 0.1);
    CHECK(step(description, "mesa", {}, {.device = Device::meta}).saved == coded.saved);
    // A step depends on the ranges that the one before left, and on nothing else.
    const std::unique_ptr<MemoryPolicy> other = make_policy("mesa");
    other->set_state(mesa->state());
    CHECK(step(description, *mesa).results == step(description, *other).results);
  }
}

TEST_CASE("training: gradients under `exact` are those under `keep` to the bit, in less memory") {
  for (const Description& description : descriptions()) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      INFO(description.name, " in ", name_of(dtype));
      const Step keep = step(description, "keep", {}, {.dtype = dtype});
      const Step exact = step(description, "exact", {}, {.dtype = dtype});
      CHECK(exact.results == keep.results);
      CHECK(exact.saved < keep.saved);
    }
  }
}

TEST_CASE("training: the same step twice gives the same bits") {
  for (const Description& description : descriptions())
    CHECK(step(description, "exact").results == step(description, "exact").results);
}

TEST_CASE("training: what is trained changes no other gradient and never saves more") {
  const std::vector<std::string> patterns{"*norm*", "*bn*",       "head*",    "fc*",
                                          "*bias",  "blocks.1.*", "layer1.*", "*conv1*"};
  for (const Description& description : descriptions()) {
    const Step all = step(description, "exact");
    const std::unique_ptr<Model> names =
        build_model(description.name, description.hyper_parameters, {.device = Device::meta});
    for (const std::string& pattern : patterns) {
      bool matches = false;
      for (const Parameter* parameter : names->parameters()) matches |= matches_glob(pattern, parameter->path());
      if (!matches) continue;
      // A batch norm that is frozen as a whole uses other statistics, and so all gradients change.
      const bool leaves_norms = description.name == "vit" || pattern == "*bias";
      INFO(description.name, " with only ", pattern);
      const Step some = step(description, "exact", {.train = {pattern}, .freeze = {}});
      CHECK(some.saved <= all.saved);
      if (!leaves_norms) continue;
      for (const auto& one : some.results) {
        INFO(one.first);
        if (matches_glob(pattern, one.first)) CHECK(one.second == all.results.at(one.first));
      }
    }
  }
}

TEST_CASE("training: with only the head trained next to nothing is saved") {
  const Step vit = step(tiny_vit(), "exact", {.train = {"head*"}, .freeze = {}});
  CHECK(vit.saved <= 4 * (batch * 24 + batch * 5 + 2 * batch + 8));  // the head's input, logits, sums, targets
  const Step resnet = step(tiny_resnet(), "exact", {.train = {"fc*"}, .freeze = {}});
  CHECK(resnet.saved <= 4 * (batch * 128 + batch * 5 + 2 * batch + 8));
}

TEST_CASE("training: frozen batch norms leave their running statistics still") {
  const Step frozen = step(tiny_resnet(), "exact", {.train = {}, .freeze = {"layer1.*"}});
  CHECK(frozen.results.at("layer1.0.bn1.num_batches_tracked") == std::vector<double>{0});
  CHECK(frozen.results.at("layer1.0.bn1.running_mean") == std::vector<double>(16, 0.0));
  CHECK(frozen.results.at("layer2.0.bn1.num_batches_tracked") == std::vector<double>{1});
}

TEST_CASE("training: evaluation records nothing random and moves nothing") {
  for (const Description& description : descriptions()) {
    const std::unique_ptr<Model> model = build_model(description.name, description.hyper_parameters, {});
    const std::int64_t size = field_of(model->inputs(), "images").shape[0];
    const Variable images(Tensor::full({2, size, size, 3}, 0.5, DType::f32, Device::cpu));
    model->set_training(false);
    const auto logits = [&](const RandomState& state) {
      const RandomStateScope scope(state);
      return logits_of(*model, images).tensor().to_vector();
    };
    CHECK(logits({.seed = 1, .step = 1}) == logits({.seed = 2, .step = 2}));
    for (const Buffer* buffer : model->buffers())
      if (buffer->path().ends_with("num_batches_tracked")) CHECK(buffer->tensor().item() == 0);
  }
}

TEST_CASE("training: an image that wants a gradient gets one") {
  for (const Description& description : {tiny_vit(), tiny_resnet()}) {
    const std::unique_ptr<Model> model = build_model(description.name, description.hyper_parameters, {});
    freeze(*model, {.train = {}, .freeze = {"*"}});
    const Variable images(Tensor::full({2, 16, 16, 3}, 0.5, DType::f32, Device::cpu), true, "images");
    const std::unique_ptr<MemoryPolicy> how = make_policy("exact");
    Tape tape(*how);
    const Recording recording(tape);
    const Variable targets(Tensor::from(std::vector<std::int64_t>{1, 2}, {2}));
    tape.backward(apply(CrossEntropy{}, logits_of(*model, images), targets));
    CHECK(images.grad().shape() == images.shape());
  }
}

TEST_CASE("training: meta counts the bytes that the CPU holds") {
  const int before_test = threads();
  std::vector<std::unique_ptr<MemoryPolicy>> policies;
  for (const std::string_view name : {"keep", "exact", "mesa"}) policies.push_back(make_policy(name));
  for (const double bits : {2.0, 4.0, 8.0}) policies.push_back(make_policy("fixed", {{"bits", bits}}));
  for (const Description& description : descriptions()) {
    for (std::size_t number = 0; number < policies.size(); ++number) {
      MemoryPolicy& policy = *policies[number];
      set_threads(static_cast<int>(number % 3) + 1);
      CAPTURE(threads());
      INFO(description.name, " under ", policy.name());
      const auto measure = [&](Device device) {
        Ledger& account = ledger(device);
        const Bytes before = account.live();
        const std::int64_t total = account.total();
        account.reset_peak();
        std::vector<std::int64_t> bytes{step(description, policy, {}, {.device = device}).saved};
        const Bytes highest = account.highest();
        for (std::size_t i = 0; i < highest.size(); ++i) bytes.push_back(highest[i] - before[i]);
        bytes.push_back(account.peak() - total);
        return bytes;
      };
      CHECK(measure(Device::meta) == measure(Device::cpu));
    }
  }
  set_threads(before_test);
}
