#include "apps/config/model_options.h"

#include "apps/config/fields.h"
#include "models/registry.h"
#include "models/task.h"

#include <algorithm>

namespace lacuna::apps {
namespace {

bool gives(const std::vector<HyperParameter>& options, std::string_view key) {
  return std::ranges::any_of(options, [&](const HyperParameter& option) { return option.key == key; });
}

/// Where a value stands that a model gets as `key`: in `model`, or `image_size` in `data`.
Location place_of_parameter(const Tree& root, const std::string& key) {
  const TreeEntry* const model = root.find("model");
  const bool in_model = model != nullptr && model->value.find(key) != nullptr;
  const TreeEntry* const data = key == "image_size" ? root.find("data") : nullptr;
  return place_of(root, !in_model && data != nullptr && data->value.find(key) != nullptr ? "data" : "model", key);
}

/// Those that no key of another name sets.
std::vector<HyperParameter> without_shared(std::vector<HyperParameter> all) {
  std::erase_if(all, [](const HyperParameter& one) {
    return one.key == "num_classes" || one.key == "image_size" || one.key == "head";
  });
  return all;
}

}  // namespace

std::vector<std::string> known_models() {
  std::vector<std::string> names = model_names();
  for (const std::string& family : model_families().names()) names.push_back(family);
  return names;
}

std::vector<HyperParameter> read_model_options(const std::vector<const TreeEntry*>& entries, Problems& problems) {
  std::vector<HyperParameter> options;
  for (const TreeEntry* const entry : entries) {
    if (entry->value.kind == Tree::Kind::invalid) continue;
    if (std::optional<HyperValue> value = read_hyper_value(entry->value)) {
      options.push_back({entry->key, std::move(*value)});
    } else {
      problems.add(entry->value.where, fmt::format("model.{}: expected a value or a list of whole numbers, got {}",
                                                   entry->key, describe(entry->value)));
    }
  }
  return options;
}

std::vector<HyperParameter> hyper_parameters_of(const Configuration& configuration) {
  std::vector<HyperParameter> all = configuration.model.options;
  if (configuration.model.num_classes > 0) all.push_back({"num_classes", configuration.model.num_classes});
  if (configuration.data.image_size > 0 && !gives(all, "image_size"))
    all.push_back({"image_size", configuration.data.image_size});
  const std::string_view head =
      tasks().contains(configuration.task.name) ? tasks().get(configuration.task.name).head : std::string_view();
  if (head.empty() || gives(all, "head") || configuration.model.name.empty()) return all;
  const ModelDescription description = describe_model(configuration.model.name, all);
  if (gives(description.hyper_parameters, "head")) all.push_back({"head", std::string(head)});
  return all;
}

std::vector<HyperParameter> defaults_of_model(std::string_view name) {
  const std::string known(name.substr(0, name.find('.')));
  if (!model_presets().contains(known) && !model_families().contains(known)) return {};
  return without_shared(describe_model(name, {}).hyper_parameters);
}

void fill_in_model_options(Configuration& configuration) {
  std::vector<HyperParameter>& options = configuration.model.options;
  for (HyperParameter& value :
       without_shared(describe_model(configuration.model.name, hyper_parameters_of(configuration)).hyper_parameters))
    if (!gives(options, value.key)) options.push_back(std::move(value));
}

void check_model(const Configuration& configuration, const Tree& root, Problems& problems) {
  if (configuration.model.name.empty()) return;
  const ModelDescription description = describe_model(configuration.model.name, hyper_parameters_of(configuration));
  for (const HyperParameters::Problem& problem : description.problems)
    problems.add(place_of_parameter(root, problem.key),
                 fmt::format("model {}: {}", configuration.model.name, problem.message));
  for (const HyperParameter& option : configuration.model.options) {
    const std::int64_t wanted = configuration.data.image_size;
    const bool is_text = std::holds_alternative<std::string>(option.value);  // which the model has refused
    if (option.key == "image_size" && wanted > 0 && !is_text && option.value != HyperValue(wanted))
      problems.add(
          place_of_parameter(root, option.key),
          fmt::format("model.image_size is {}, but data.image_size is {}", lacuna::to_string(option.value), wanted));
  }
}

}  // namespace lacuna::apps
