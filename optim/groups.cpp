// Division of a model's parameters by learning rate and decay.
#include "core/glob.h"
#include "nn/conv.h"
#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace lacuna {
namespace {

/// The layer of each parameter, as timm's group_parameters counts them: 0 before the blocks, then one per block, and
/// the classifier behind them. Other modules between two blocks (a stage's downsampling) belong to the one after them,
/// if they do not declare otherwise (Module::follows_block); a norm that follows a block that is a mere convolution
/// (VGG) is a layer of its own.
std::map<const Parameter*, int> layers_of(const Module& model) {
  std::map<const Parameter*, int> layers;
  std::vector<const Parameter*> open;  // in no block, and behind the last one so far
  int blocks = 0;
  bool is_convolution = false;  // the last block
  for (const Module* const module : model.modules()) {
    if (module->role() == Role::block) {
      const int between = ++blocks == 1 ? 0 : blocks;
      for (const Parameter* const parameter : open) layers.emplace(parameter, between);
      open.clear();
      is_convolution = dynamic_cast<const nn::Conv2d*>(module) != nullptr;
      for (const Parameter* const parameter : module->parameters()) layers.emplace(parameter, blocks);
      continue;
    }
    if (module->follows_block() && is_convolution) ++blocks;
    for (const Parameter* const parameter : module->own_parameters()) {
      if (layers.contains(parameter)) continue;  // in a block
      if (module->follows_block())
        layers.emplace(parameter, blocks);
      else
        open.push_back(parameter);
    }
  }
  for (const Parameter* const parameter : open) layers.emplace(parameter, blocks + 1);
  return layers;
}

}  // namespace

std::set<const Parameter*> hidden_matrices(const Module& model) {
  const std::map<const Parameter*, int> layers = layers_of(model);
  const auto head = 1 + std::ranges::count(model.modules(), Role::block, &Module::role);
  std::set<const Parameter*> matrices;
  for (const auto& [parameter, layer] : layers)
    if (0 < layer && layer < head && parameter->shape().rank() == 2 && !parameter->excluded_from_decay())
      matrices.insert(parameter);
  return matrices;
}

Fields GroupRule::fields() {
  return {field("match", &GroupRule::pattern, required, "a pattern on parameter names"),
          field("lr_scale", &GroupRule::lr_scale, "factor of the learning rate"),
          field("weight_decay", &GroupRule::weight_decay, "replaces the optimizer's weight decay")};
}

std::string GroupRule::problem() const {
  if (pattern.empty()) return "expected `match`, a pattern on parameter names";
  return lr_scale || weight_decay ? "" : "expected `lr_scale`, `weight_decay` or both";
}

std::vector<ParameterGroup> parameter_groups(const Module& model, const GroupRules& rules) {
  const std::vector<Parameter*> parameters = model.parameters();
  const std::map<const Parameter*, int> layers = layers_of(model);
  int last = 0;
  for (const auto& [parameter, layer] : layers) last = std::max(last, layer);
  if (rules.layer_decay != 1 && last <= 1)
    reject("optimizer.layer_decay: the model declares no blocks (Module::set_role), so all layers would learn alike");
  std::vector<bool> used(rules.rules.size());
  std::map<std::pair<double, double>, ParameterGroup> groups;  // by rate and decay
  for (Parameter* const parameter : parameters) {
    double lr_scale = std::pow(rules.layer_decay, last - layers.at(parameter));
    double weight_decay = rules.decay_norm_and_bias || !parameter->excluded_from_decay() ? rules.weight_decay : 0;
    bool decided = false;
    for (std::size_t k = 0; k < rules.rules.size(); ++k) {
      const GroupRule& rule = rules.rules[k];
      if (!matches_glob(rule.pattern, parameter->path())) continue;
      used[k] = true;
      if (std::exchange(decided, true)) continue;
      lr_scale *= rule.lr_scale.value_or(1);
      weight_decay = rule.weight_decay.value_or(weight_decay);
    }
    ParameterGroup& group = groups[{lr_scale, weight_decay}];
    group.lr_scale = lr_scale;
    group.weight_decay = weight_decay;
    group.parameters.push_back(parameter);
  }
  for (std::size_t k = 0; k < rules.rules.size(); ++k)
    if (!used[k])
      reject("optimizer.groups: the pattern `{}` matches no parameter; they are named like {}, {}",
             rules.rules[k].pattern, parameters.front()->path(), parameters.back()->path());
  std::vector<ParameterGroup> all;
  for (auto& [key, group] : groups) all.push_back(std::move(group));
  return all;
}

}  // namespace lacuna
