#include "models/registry.h"

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

ModelDescription describe_model(std::string_view name, const std::vector<HyperParameter>& given) {
  const bool is_family = model_families().contains(name);
  const ModelPreset preset = is_family ? ModelPreset{std::string(name), {}} : model_presets().get(name);
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
