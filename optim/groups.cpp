// Division of a model's parameters by learning rate and decay.
#include "core/glob.h"
#include "optim/optimizer.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace lacuna {
namespace {

/// The path's shortest prefix that ends in a number after a dot, as `blocks.3`
/// or `layer1.0`; empty if there is none, and for the numbered layers of a
/// stem.
std::string_view block_of(std::string_view path) {
  if (path.starts_with("stem.") || path.starts_with("conv1.")) return {};
  for (std::size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.', dot + 1)) {
    std::size_t end = dot + 1;
    while (end < path.size() && std::isdigit(static_cast<unsigned char>(path[end])) != 0) ++end;
    if (end > dot + 1 && end < path.size() && path[end] == '.') return path.substr(0, end);
  }
  return {};
}

/// The block of a parameter in a model of stages: `layers.1.blocks.3`, or the stage's first block for what precedes the
/// blocks, as `layers.1.downsample`. `stages`: those that have blocks.
std::string block_in(std::string_view path, const std::set<std::string, std::less<>>& stages) {
  const std::string_view stage = block_of(path);
  if (!stages.contains(stage)) return std::string(stage);
  const std::string_view rest = path.substr(stage.size() + 1);  // blocks.3.norm1.weight
  const std::string_view block = rest.starts_with("blocks.") ? block_of(rest) : std::string_view("blocks.0");
  return std::string(stage) + "." + std::string(block);
}
std::set<std::string, std::less<>> stages_with_blocks(const std::vector<Parameter*>& parameters) {
  std::set<std::string, std::less<>> stages;
  for (const Parameter* parameter : parameters) {
    const std::string_view stage = block_of(parameter->path());
    if (!stage.empty() && parameter->path().substr(stage.size()).starts_with(".blocks.")) stages.emplace(stage);
  }
  return stages;
}

/// The layer of each parameter, as timm's group_parameters counts them: 0
/// before the blocks, then one per block, the last with the final norm, then
/// the classifier.
std::vector<int> layers_of(const std::vector<Parameter*>& parameters) {
  std::vector<int> layers;
  const std::set<std::string, std::less<>> stages = stages_with_blocks(parameters);
  std::map<std::string, int> blocks;
  for (const Parameter* parameter : parameters)
    if (const std::string block = block_in(parameter->path(), stages); !block.empty())
      blocks.emplace(block, static_cast<int>(blocks.size()) + 1);
  const int last = static_cast<int>(blocks.size());
  bool before = true;
  for (const Parameter* parameter : parameters) {
    const std::string block = block_in(parameter->path(), stages);
    if (!block.empty()) before = false;
    layers.push_back(!block.empty()                          ? blocks.at(block)
                     : before && last > 0                    ? 0
                     : parameter->path().starts_with("norm") ? last
                                                             : last + 1);
  }
  return layers;
}

}  // namespace

std::vector<ParameterGroup> parameter_groups(const Module& model, const GroupRules& rules) {
  const std::vector<Parameter*> parameters = model.parameters();
  const std::vector<int> layers = layers_of(parameters);
  const int last = layers.empty() ? 0 : *std::max_element(layers.begin(), layers.end());
  std::vector<bool> used(rules.rules.size());
  std::map<std::pair<double, double>, ParameterGroup> groups;  // by rate and decay
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Parameter& parameter = *parameters[i];
    double lr_scale = std::pow(rules.layer_decay, last - layers[i]);
    double weight_decay = rules.decay_norm_and_bias || !parameter.excluded_from_decay() ? rules.weight_decay : 0;
    bool decided = false;
    for (std::size_t k = 0; k < rules.rules.size(); ++k) {
      const GroupRule& rule = rules.rules[k];
      if (!matches_glob(rule.pattern, parameter.path())) continue;
      used[k] = true;
      if (std::exchange(decided, true)) continue;
      lr_scale *= rule.lr_scale.value_or(1);
      weight_decay = rule.weight_decay.value_or(weight_decay);
    }
    ParameterGroup& group = groups[{lr_scale, weight_decay}];
    group.lr_scale = lr_scale;
    group.weight_decay = weight_decay;
    group.parameters.push_back(&parameter);
  }
  for (std::size_t k = 0; k < rules.rules.size(); ++k)
    if (!used[k])
      reject(
          "optimizer.groups: the pattern `{}` matches no parameter; they "
          "are named like {}, {}",
          rules.rules[k].pattern, parameters.front()->path(), parameters.back()->path());
  std::vector<ParameterGroup> all;
  for (auto& [key, group] : groups) all.push_back(std::move(group));
  return all;
}

}  // namespace lacuna
