#include "models/registry.h"

#include <fmt/ranges.h>

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
  HyperParameters parameters(preset.values, given);
  ModelFactory build = model_families().get(preset.family)(parameters);
  parameters.reject_unknown_keys();
  return {std::string(name), preset.family, parameters.resolved(), parameters.problems(), std::move(build)};
}

std::unique_ptr<Model> build_model(std::string_view name, const std::vector<HyperParameter>& given,
                                   const ModelContext& context) {
  const ModelDescription description = describe_model(name, given);
  if (!description.problems.empty()) {
    std::string lines;
    for (const HyperParameters::Problem& problem : description.problems) lines += "\n  " + problem.message;
    reject("model {}:{}", name, lines);
  }
  return description.build(context);
}

}  // namespace lacuna
