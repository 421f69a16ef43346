#include "nn/module.h"
#include "autograd/tape.h"

#include "nn/init.h"
#include "ops/products/linear.h"

#include <doctest/doctest.h>

#include <memory>

using namespace lacuna;

namespace {

/// Two parameters and a running statistic.
struct Layer : Module {
  Layer(Module& parent, std::string_view name)
      : Module(parent, name),
        weight(*this, "weight", {3, 2}, init::normal(1)),
        bias(*this, "bias", {3}, init::constant(0.5)),
        mean(*this, "running_mean", {3}, 0.25) {}
  void on_freeze() override { ++freezes; }

  Variable forward(Variable x) const {
    const Scope scope(*this);
    return apply(Linear{}, std::move(x), weight.variable(), bias.variable());
  }
  RandomStream numbers() const { return stream("dropout"); }

  Parameter weight, bias;
  Buffer mean;
  int freezes = 0;
};

struct Model : Module {
  explicit Model(const ModelContext& context = {})
      : Module(context), token(*this, "cls_token", {1, 1, 2}, init::constant(0)), stem(*this, "stem") {
    for (int i = 0; i < 2; ++i) blocks.push_back(std::make_unique<Layer>(*this, "blocks." + std::to_string(i)));
  }
  Parameter token;
  Layer stem;
  std::vector<std::unique_ptr<Layer>> blocks;
};

template <class Named>
std::vector<std::string> paths(const std::vector<Named*>& all) {
  std::vector<std::string> paths;
  for (const Named* one : all) paths.push_back(one->path());
  return paths;
}

}  // namespace

TEST_CASE("parameters and buffers are listed with their paths, in the order of construction") {
  const Model model;
  CHECK(model.path().empty());
  CHECK(model.blocks[1]->path() == "blocks.1");
  CHECK(paths(model.parameters()) == std::vector<std::string>{"cls_token", "stem.weight", "stem.bias",
                                                              "blocks.0.weight", "blocks.0.bias", "blocks.1.weight",
                                                              "blocks.1.bias"});
  CHECK(paths(model.buffers()) ==
        std::vector<std::string>{"stem.running_mean", "blocks.0.running_mean", "blocks.1.running_mean"});
  CHECK(model.parameter_count() == 2 + 3 * (6 + 3));
  CHECK(model.buffers()[0]->tensor().to_vector() == std::vector<double>{0.25, 0.25, 0.25});
}

TEST_CASE("parameters are f32, trainable and accounted to their path") {
  const std::int64_t before = at(ledger(Device::cpu).live(), Purpose::parameters);
  const Model model(ModelContext{.dtype = DType::bf16});
  CHECK(at(ledger(Device::cpu).live(), Purpose::parameters) - before == 4 * (model.parameter_count() + 3 * 3));
  for (const Parameter* parameter : model.parameters()) {
    CHECK(parameter->tensor().dtype() == DType::f32);
    CHECK(parameter->trainable());
    CHECK_FALSE(parameter->grad().defined());
    CHECK(parameter->tensor().storage()->owner().path.text() == parameter->path());
  }
  CHECK(model.stem.bias.excluded_from_decay());
  CHECK_FALSE(model.stem.weight.excluded_from_decay());
  CHECK_FALSE(model.token.excluded_from_decay());
}

TEST_CASE("initial values follow from the seed and the path, not from the order") {
  const Model one(ModelContext{.seed = 1}), again(ModelContext{.seed = 1}), other(ModelContext{.seed = 2});
  CHECK(one.stem.weight.tensor().to_vector() == again.stem.weight.tensor().to_vector());
  CHECK(one.stem.weight.tensor().to_vector() != other.stem.weight.tensor().to_vector());
  CHECK(one.stem.weight.tensor().to_vector() != one.blocks[0]->weight.tensor().to_vector());
  struct OnlyBlock : Module {
    OnlyBlock() : Module(ModelContext{.seed = 1}), block(*this, "blocks.0") {}
    Layer block;
  };
  CHECK(OnlyBlock().block.weight.tensor().to_vector() == one.blocks[0]->weight.tensor().to_vector());
}

TEST_CASE("a model on meta takes no memory, and the ledger counts it") {
  const std::int64_t before = at(ledger(Device::meta).live(), Purpose::parameters);
  const Model model(ModelContext{.device = Device::meta});
  CHECK(at(ledger(Device::meta).live(), Purpose::parameters) - before == 4 * (model.parameter_count() + 3 * 3));
  CHECK(model.stem.weight.tensor().raw() == nullptr);
}

TEST_CASE("training or evaluation is the whole model's") {
  Model model;
  CHECK(model.blocks[0]->training());
  model.blocks[1]->set_training(false);
  CHECK_FALSE(model.training());
  CHECK_FALSE(model.blocks[0]->training());
}

TEST_CASE("a module's streams differ from its neighbour's and from step to step") {
  const Model model;
  const RandomStateScope scope({.seed = 3, .step = 1});
  const RandomStream first = model.blocks[0]->numbers();
  CHECK(first == model.blocks[0]->numbers());
  CHECK(first != model.blocks[1]->numbers());
  const RandomStateScope second({.seed = 3, .step = 2});
  CHECK(first != model.blocks[0]->numbers());
}

TEST_CASE("what a module saves is accounted to its path") {
  const Model model;
  const std::unique_ptr<MemoryPolicy> how = make_policy("exact");
  Tape tape(*how);
  const Recording recording(tape);
  const Variable y = model.blocks[1]->forward(Variable(Tensor::zeros({4, 2}, DType::f32, Device::cpu)));
  CHECK(y.tensor().storage()->owner().path.text() == "blocks.1");
  for (const Tape::SavedTensorReport& slot : tape.report())
    for (const Reader& user : slot.readers) CHECK(user.path.text() == "blocks.1");
}
