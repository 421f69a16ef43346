// Learning rate and decay by layer and by pattern, against timm's (layer_decay.txt, written by make_layer_decay.py).
#include "optim/optimizer.h"

#include "models/registry.h"

#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <sstream>

using namespace lacuna;

namespace {

struct Line {
  std::string path;
  double lr_scale = 0, weight_decay = 0;
};

struct Part : Module {
  Part(Module& parent, std::string_view name) : Module(parent, name) {}
  Parameter weight{*this, "weight", {2, 2}, Init()}, bias{*this, "bias", {2}, Init()};
};

struct Parts : Module {
  Parts() : Module(ModelContext{.device = Device::meta}) {}
  Part stem{*this, "stem.0"}, first{*this, "first"}, between{*this, "between"}, second{*this, "second"},
      norm{*this, "final"}, head{*this, "head"};
};

}  // namespace

TEST_CASE("layer-wise decay equals timm's") {
  std::ifstream file(LACUNA_SOURCE_DIR "/tests/optim/layer_decay.txt");
  REQUIRE(file);
  std::map<std::string, std::vector<Line>> expected;
  double decay = 0;
  std::string model;
  for (std::string text; std::getline(file, text);) {
    std::istringstream words(text);
    std::string first, shape;
    words >> first;
    if (first == "model") {
      words >> model >> decay;
      continue;
    }
    Line line{.path = first};
    words >> shape >> line.lr_scale >> line.weight_decay;
    expected[model].push_back(line);
  }
  REQUIRE(expected.size() == 7);
  for (const auto& entry : expected) {
    const std::string& name = entry.first;
    const std::vector<Line>& lines = entry.second;
    std::vector<HyperParameter> hyper_parameters;
    if (name.starts_with("vit")) hyper_parameters.push_back({"depth", std::int64_t{3}});
    const std::unique_ptr<Model> built = build_model(name, hyper_parameters, {.device = Device::meta});
    std::map<std::string, Line> found;
    for (const ParameterGroup& group :
         parameter_groups(*built, {.weight_decay = 0.05, .decay_norm_and_bias = false, .layer_decay = decay}))
      for (const Parameter* parameter : group.parameters)
        found[parameter->path()] = {parameter->path(), group.lr_scale, group.weight_decay};
    CHECK(found.size() == lines.size());
    for (const Line& line : lines) {
      INFO(name, " ", line.path);
      CHECK(found.at(line.path).lr_scale == doctest::Approx(line.lr_scale).epsilon(1e-12));
      CHECK(found.at(line.path).weight_decay == line.weight_decay);
    }
  }
}

TEST_CASE("the first matching rule applies, times the layer's rate") {
  Parts model;
  model.first.set_role(Role::block);
  std::map<std::string, std::pair<double, double>> found;
  const GroupRules rules{.weight_decay = 0.1,
                         .decay_norm_and_bias = false,
                         .rules = {{.pattern = "first.*", .lr_scale = 3, .weight_decay = {}},
                                   {.pattern = "*.weight", .lr_scale = 5, .weight_decay = 0.7}},
                         .layer_decay = 0.5};
  for (const ParameterGroup& group : parameter_groups(model, rules))
    for (const Parameter* parameter : group.parameters) found[parameter->path()] = {group.lr_scale, group.weight_decay};
  CHECK(found.at("stem.0.weight") == std::pair{5 * 0.25, 0.7});
  CHECK(found.at("first.weight") == std::pair{3 * 0.5, 0.1});
  CHECK(found.at("first.bias") == std::pair{3 * 0.5, 0.0});
  CHECK(found.at("head.weight") == std::pair{5.0, 0.7});
}

TEST_CASE("layers are counted by the blocks that modules declare, whatever their names") {
  Parts model;
  const GroupRules rules{.layer_decay = 0.5};
  CHECK_THROWS_AS(parameter_groups(model, rules), Error);  // no blocks
  model.first.set_role(Role::block);
  model.second.set_role(Role::block);
  model.norm.set_follows_block();
  std::map<std::string, double> found;
  for (const ParameterGroup& group : parameter_groups(model, rules))
    for (const Parameter* parameter : group.parameters) found[parameter->path()] = group.lr_scale;
  CHECK(found.at("stem.0.weight") == 0.125);
  CHECK(found.at("first.weight") == 0.25);
  CHECK(found.at("between.weight") == 0.5);
  CHECK(found.at("second.bias") == 0.5);
  CHECK(found.at("final.bias") == 0.5);
  CHECK(found.at("head.weight") == 1);
}
