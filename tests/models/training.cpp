// Whole models in training: policies agree to the bit, frozen parts stay as they are, meta counts what the CPU holds.
#include "autograd/rules.h"
#include "autograd/tape.h"
#include "core/glob.h"
#include "models/registry.h"
#include "models/weights.h"
#include "nn/freeze.h"
#include "ops/loss.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

using namespace lacuna;

namespace {

struct Description {
  std::string name;
  std::vector<HyperParameter> hyper_parameters;
};

HyperValue whole(std::int64_t value) { return value; }

Description tiny_vit(std::vector<HyperParameter> more = {}) {
  Description vit{"vit",
                  {{"image_size", whole(16)},
                   {"patch_size", whole(4)},
                   {"embed_dim", whole(24)},
                   {"depth", whole(3)},
                   {"num_heads", whole(3)},
                   {"num_classes", whole(5)}}};
  vit.hyper_parameters.insert(vit.hyper_parameters.end(), more.begin(), more.end());
  return vit;
}

Description tiny_resnet(std::vector<HyperParameter> more = {}) {
  Description resnet{"resnet",
                     {{"image_size", whole(16)},
                      {"layers", std::vector<std::int64_t>{2, 2}},
                      {"channels", std::vector<std::int64_t>{16, 32}},
                      {"stem_width", whole(16)},
                      {"zero_init_last", false},
                      {"num_classes", whole(5)}}};
  resnet.hyper_parameters.insert(resnet.hyper_parameters.end(), more.begin(), more.end());
  return resnet;
}

const std::vector<Description>& descriptions() {
  static const std::vector<Description> all{
      tiny_vit(),
      tiny_vit({{"global_pool", "avg"}, {"drop_rate", 0.1}, {"proj_drop_rate", 0.1}, {"drop_path_rate", 0.2}}),
      tiny_vit({{"attention", "chain"}, {"attn_drop_rate", 0.1}, {"pos_drop_rate", 0.1}}),
      tiny_resnet(),
      tiny_resnet({{"stem", "cifar"}, {"block", "basic"}, {"drop_path_rate", 0.3}}),
  };
  return all;
}

struct Step {
  std::map<std::string, std::vector<double>> results;  // logits, gradients by path, buffers afterwards
  std::int64_t saved = 0;                              // bytes, when backward began
};

constexpr std::int64_t batch = 3;

/// One forward and backward pass of a fresh model.
Step step(const Description& description, MemoryPolicy& policy, const FreezeRules& rules = {},
          const ModelContext& context = {}) {
  random_state() = {.seed = 11, .step = 4};
  const std::unique_ptr<Model> model = build_model(description.name, description.hyper_parameters, context);
  freeze(*model, rules);
  const std::int64_t size = model->image_size();
  const Tensor images = Tensor::empty({batch, size, size, 3}, DType::f32, context.device, Purpose::data);
  const Tensor targets = Tensor::zeros({batch}, DType::i64, context.device, Purpose::data);
  launch(context.device, [&] {
    const RandomStream stream{5, 0, 0};
    for (std::int64_t i = 0; i < images.count(); ++i)
      images.data<float>()[i] = 2 * stream.uniform(static_cast<std::uint64_t>(i)) - 1;
    for (std::int64_t i = 0; i < batch; ++i) targets.data<std::int64_t>()[i] = i;
  });
  Step done;
  const bool readable = context.device != Device::meta;
  Tape tape(policy);
  {
    const Recording recording(tape);
    Variable logits = model->forward(Variable(images));
    if (readable) done.results["logits"] = logits.tensor().to_vector();
    const Variable loss = apply(CrossEntropy{}, std::move(logits), Variable(targets));
    tape.backward(loss);
  }
  done.saved = tape.saved_bytes();
  if (!readable) return done;
  for (const Parameter* parameter : model->parameters())
    if (parameter->trainable()) done.results[parameter->path()] = parameter->grad().to_vector();
  for (const Buffer* buffer : model->buffers()) done.results[buffer->path()] = buffer->tensor().to_vector();
  return done;
}

Step step(const Description& description, std::string_view policy, const FreezeRules& rules = {},
          const ModelContext& context = {}) {
  return step(description, *make_policy(policy), rules, context);
}

/// |a − b| / |b| over all parameters' gradients together.
double gradient_error(const Step& step, const Step& exact) {
  double difference = 0, norm = 0;
  for (const auto& [name, values] : exact.results) {
    if (name == "logits" || name.find("running") != std::string::npos) continue;
    const std::vector<double>& others = step.results.at(name);
    for (std::size_t i = 0; i < values.size(); ++i) {
      difference += (others[i] - values[i]) * (others[i] - values[i]);
      norm += values[i] * values[i];
    }
  }
  return std::sqrt(difference / norm);
}

}  // namespace

TEST_CASE("training: recomputed blocks give the same gradients and statistics to the bit, from less") {
  for (const Description& description : descriptions()) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      INFO(description.name, " in ", name_of(dtype));
      const Step exact = step(description, "exact", {}, {.dtype = dtype});
      const std::unique_ptr<MemoryPolicy> policy = refine(make_policy("exact"), {}, {"blocks.*", "layer?.?"});
      const Step recomputed = step(description, *policy, {}, {.dtype = dtype});
      CHECK(recomputed.results == exact.results);
      CHECK(recomputed.saved < exact.saved);
      CHECK(policy->unmatched().size() == 1);  // a model has blocks or layers
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
      for (const auto& [name, values] : some.results) {
        INFO(name);
        if (matches_glob(pattern, name)) CHECK(values == all.results.at(name));
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
    const Variable images(Tensor::full({2, 16, 16, 3}, 0.5, DType::f32, Device::cpu));
    model->set_training(false);
    random_state() = {.seed = 1, .step = 1};
    const std::vector<double> first = model->forward(images).tensor().to_vector();
    random_state() = {.seed = 2, .step = 2};
    CHECK(model->forward(images).tensor().to_vector() == first);
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
    tape.backward(apply(CrossEntropy{}, model->forward(images), targets));
    CHECK(images.grad().shape() == images.shape());
  }
}

TEST_CASE("training: meta counts the bytes that the CPU holds") {
  for (const Description& description : descriptions()) {
    for (const std::string_view policy : {"keep", "exact"}) {
      INFO(description.name, " under ", policy);
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
}
