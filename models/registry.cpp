#include "models/registry.h"

#include <fmt/ranges.h>

#include <map>

namespace lacuna {

Registry<ModelFamily>& model_families() {
  static Registry<ModelFamily> families("model family");
  return families;
}

Registry<ModelPreset>& model_presets() {
  static Registry<ModelPreset> presets("model");
  return presets;
}

std::vector<std::string> model_names() { return model_presets().names(); }

namespace {

/// The preset of a name: a family is a preset of itself. The tag of a timm name, the set of weights behind a dot, is
/// no part of the model.
ModelPreset resolve(std::string_view name) {
  if (model_families().contains(name)) return {std::string(name), {}};
  if (model_presets().contains(name)) return model_presets().get(name);
  const std::string_view untagged = name.substr(0, name.find('.'));
  if (model_presets().contains(untagged)) return model_presets().get(untagged);
  std::vector<std::string> known = model_names();
  const std::vector<std::string> families = model_families().names();
  known.insert(known.end(), families.begin(), families.end());
  if (const std::string near = nearest_name(name, known); !near.empty())
    reject("unknown model {}: did you mean {}?", name, near);
  reject("unknown model {}: known are {}, and with hyper-parameters of your own the families {}", name,
         fmt::join(model_names(), ", "), fmt::join(families, ", "));
}

}  // namespace

ModelDescription describe_model(std::string_view name, const std::vector<HyperParameter>& given) {
  const ModelPreset preset = resolve(name);
  const ModelFamily& family = model_families().get(preset.family);
  Options options = family.options;
  HyperProblems problems;
  std::map<std::string_view, const Tree*> values;  // the given ones win
  for (const auto* const list : {&preset.values, &given})
    for (const HyperParameter& entry : *list) values.insert_or_assign(entry.key, &entry.value);
  std::vector<std::string> known;
  for (const Field& field : options.fields()) known.emplace_back(field.name);
  for (const Field& field : options.fields()) {
    const auto value = values.find(field.name);
    if (value == values.end()) continue;
    Problems found;
    read_field(field, fmt::format("`{}`", field.name), *value->second, options.object(), found);
    for (const Problems::Problem& problem : found.all()) problems.add(field.name, problem.message);
  }
  family.check(options, problems);
  for (const auto& [key, value] : values) {
    if (options.find(key) != nullptr) continue;
    const std::string near = nearest_name(key, known);
    problems.add(key, near.empty()
                          ? fmt::format("unknown hyper-parameter `{}`; known are {}", key, fmt::join(known, ", "))
                          : fmt::format("unknown hyper-parameter `{}`: did you mean `{}`?", key, near));
  }
  ModelDescription description{std::string(name), preset.family, options, {}, problems.all(), {}};
  for (const Field& field : options.fields())
    description.hyper_parameters.push_back({std::string(field.name), options.write(field)});
  description.build = [build = family.build, options = std::move(options)](const ModelContext& context) {
    return build(options, context);
  };
  return description;
}

std::unique_ptr<Model> build_model(std::string_view name, const std::vector<HyperParameter>& given,
                                   const ModelContext& context) {
  const ModelDescription description = describe_model(name, given);
  if (!description.problems.empty()) {
    std::string lines;
    for (const HyperProblem& problem : description.problems) lines += "\n  " + problem.message;
    reject("model {}:{}", name, lines);
  }
  return description.build(context);
}

}  // namespace lacuna
