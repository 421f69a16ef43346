// Models by name. A family builds a model from hyper-parameters; a preset is a family with some of them set.
#pragma once

#include "core/registry.h"
#include "models/hyper_parameters.h"
#include "models/image_preparation.h"
#include "models/model.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// Builds a model whose hyper-parameters have been read and are valid.
using ModelFactory = std::function<std::unique_ptr<Model>(const ModelContext&)>;

struct ModelFamily {
  Options options;  // with their defaults
  /// Fills in options that depend on others, and adds the problems of options that do not go together.
  void (*check)(Options& options, HyperProblems& problems);
  std::unique_ptr<Model> (*build)(const Options& options, const ModelContext& context);
  /// Defaults of a configuration: the data set that is made up for the family, a setting of that, and the task.
  std::string_view samples = "shapes", target{}, task = "classification";
};

struct ModelPreset {
  std::string family;
  std::vector<HyperParameter> values;
  ImagePreparation images{};  // that its weights in timm were trained with; empty: none are
};

Registry<ModelFamily>& model_families();
Registry<ModelPreset>& model_presets();

/// A static object of this type registers a family: a model's class, with a constructor from a ModelContext and its
/// options, which have a table and `void check(HyperProblems&)`.
template <class ModelType, class ModelOptions>
struct RegisterFamily {
  explicit RegisterFamily(std::string_view name, std::string_view samples = "shapes", std::string_view target = {},
                          std::string_view task = "classification") {
    model_families().add(
        name,
        {ModelOptions(), [](Options& options, HyperProblems& problems) { options.as<ModelOptions>().check(problems); },
         [](const Options& options, const ModelContext& context) -> std::unique_ptr<Model> {
           return std::make_unique<ModelType>(context, options.as<ModelOptions>());
         },
         samples, target, task});
  }
};
/// A static object of this type registers a preset.
struct RegisterPreset {
  RegisterPreset(std::string_view name, std::string_view family, std::vector<HyperParameter> values,
                 ImagePreparation images = {}) {
    model_presets().add(name, {std::string(family), std::move(values), std::move(images)});
  }
};

/// Every preset, by name.
std::vector<std::string> model_names();

/// A model as it would be built.
struct ModelDescription {
  std::string name;
  std::string family;
  Options options;                               // as given, with the defaults of others
  std::vector<HyperParameter> hyper_parameters;  // the values of all options
  std::vector<HyperProblem> problems;            // all that is wrong with the given values; none: `build` may be called
  ModelFactory build;
};

/// Reads the description of a model: `name` is a preset's or a family's. Refuses an unknown name only; what is wrong
/// with the hyper-parameters is listed in the result.
ModelDescription describe_model(std::string_view name, const std::vector<HyperParameter>& given);

/// Builds a model, or refuses with a list of all that is wrong.
std::unique_ptr<Model> build_model(std::string_view name, const std::vector<HyperParameter>& given,
                                   const ModelContext& context);

}  // namespace lacuna
