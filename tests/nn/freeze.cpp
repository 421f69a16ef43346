#include "nn/freeze.h"
#include "core/glob.h"

#include "nn/init.h"

#include <doctest/doctest.h>

#include <memory>

using namespace lacuna;

namespace {

struct Layer : Module {
  Layer(Module& parent, std::string_view name)
      : Module(parent, name),
        weight(*this, "weight", {2}, init::constant(1)),
        bias(*this, "bias", {2}, init::constant(0)) {}
  void on_freeze() override { frozen = !weight.trainable() && !bias.trainable(); }
  Parameter weight, bias;
  bool frozen = false;
};

struct Model : Module {
  Model() : Module(ModelContext{}) {
    for (const char* name : {"norm", "blocks.0.norm1", "blocks.0.fc", "blocks.11.fc", "head"})
      layers.push_back(std::make_unique<Layer>(*this, name));
  }
  std::vector<std::string> trained() const {
    std::vector<std::string> paths;
    for (const Parameter* parameter : parameters())
      if (parameter->trainable()) paths.push_back(parameter->path());
    return paths;
  }
  std::vector<std::unique_ptr<Layer>> layers;
};

std::string error_of(Module& model, const FreezeRules& rules) {
  try {
    freeze(model, rules);
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::input);
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("globs") {
  CHECK(matches_glob("*", "blocks.0.fc.weight"));
  CHECK(matches_glob("*norm*", "blocks.0.norm1.weight"));
  CHECK(matches_glob("blocks.?.fc.*", "blocks.0.fc.bias"));
  CHECK_FALSE(matches_glob("blocks.?.fc.*", "blocks.11.fc.bias"));
  CHECK(matches_glob("blocks.[0-5].*", "blocks.0.fc.bias"));
  CHECK_FALSE(matches_glob("norm*", "blocks.0.norm1.weight"));
  CHECK_FALSE(matches_glob("head", "head.weight"));
}

TEST_CASE("only what matches is trained") {
  Model model;
  const std::vector<FreezeMatch> matches = freeze(model, {.train = {"head*", "*norm*.bias"}, .freeze = {}});
  CHECK(model.trained() == std::vector<std::string>{"norm.bias", "blocks.0.norm1.bias", "head.weight", "head.bias"});
  REQUIRE(matches.size() == 2);
  CHECK(matches[0].pattern == "head*");
  CHECK(matches[0].parameters.size() == 2);
  CHECK(matches[1].parameters[0]->path() == "norm.bias");
}

TEST_CASE("all but what matches is trained, and modules are told") {
  Model model;
  freeze(model, {.train = {}, .freeze = {"blocks.*", "norm.weight"}});
  CHECK(model.trained() == std::vector<std::string>{"norm.bias", "head.weight", "head.bias"});
  CHECK_FALSE(model.layers[0]->frozen);
  CHECK(model.layers[1]->frozen);
  freeze(model, {.train = {"*"}, .freeze = {}});
  CHECK(model.trained().size() == 10);
  CHECK_FALSE(model.layers[1]->frozen);
}

TEST_CASE("no rules leave everything as it is") {
  Model model;
  CHECK(freeze(model, {}).empty());
  CHECK(model.trained().size() == 10);
}

TEST_CASE("patterns that match nothing, and both lists at once, are refused with the model unchanged") {
  Model model;
  CHECK(error_of(model, {.train = {"*norm*", "heads.weight"}, .freeze = {}}) ==
        "freeze: the pattern `heads.weight` matches no parameter: did you mean head.weight?; parameters are named like "
        "norm.weight, head.bias");
  CHECK(model.trained().size() == 10);
  CHECK(error_of(model, {.train = {"*"}, .freeze = {"head*"}}) ==
        "freeze: give either `train` (only these are trained) or `freeze` (all but these are), not both");
  CHECK(model.trained().size() == 10);
}
