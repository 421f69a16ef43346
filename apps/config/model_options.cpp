#include "apps/config/model_options.h"

#include "models/registry.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace lacuna::apps {
namespace {

std::optional<HyperValue> hyper_value(const YamlNode& node) {
  if (node.kind == YamlNode::Kind::scalar) {
    if (const std::optional<double> number = number_in(node)) {
      constexpr double exactly_counted = 0x1p53;
      const bool whole = *number == std::floor(*number) && std::abs(*number) <= exactly_counted;
      if (whole) return static_cast<std::int64_t>(*number);
      return *number;
    }
    if (!node.quoted && (node.text == "true" || node.text == "false")) return node.text == "true";
    return node.text;
  }
  if (node.kind != YamlNode::Kind::list) return {};
  std::vector<std::int64_t> values;
  for (const YamlNode& item : node.items) {
    const std::optional<HyperValue> value = hyper_value(item);
    const auto* const whole = value ? std::get_if<std::int64_t>(&*value) : nullptr;
    if (whole == nullptr) return {};
    values.push_back(*whole);
  }
  return values;
}

bool gives(const std::vector<HyperParameter>& options, std::string_view key) {
  return std::ranges::any_of(options, [&](const HyperParameter& option) { return option.key == key; });
}

/// Where the value stands that a model gets as `key`.
Location place_of(const YamlNode& root, const std::string& key) {
  const YamlEntry* const model = root.find("model");
  if (model != nullptr)
    if (const YamlEntry* const entry = model->value.find(key)) return entry->where;
  if (const YamlEntry* const data = root.find("data"); data != nullptr && key == "image_size")
    if (const YamlEntry* const entry = data->value.find(key)) return entry->where;
  return model == nullptr ? root.where : model->where;
}

}  // namespace

std::vector<std::string> known_models() {
  std::vector<std::string> names = model_names();
  for (const std::string& family : model_families().names()) names.push_back(family);
  return names;
}

std::vector<HyperParameter> read_model_options(const std::vector<const YamlEntry*>& entries, Problems& problems) {
  std::vector<HyperParameter> options;
  for (const YamlEntry* const entry : entries) {
    if (entry->value.kind == YamlNode::Kind::invalid) continue;
    if (std::optional<HyperValue> value = hyper_value(entry->value)) {
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
  return all;
}

void check_model(const Configuration& configuration, const YamlNode& root, Problems& problems) {
  if (configuration.model.name.empty()) return;
  const ModelDescription description = describe_model(configuration.model.name, hyper_parameters_of(configuration));
  for (const HyperParameters::Problem& problem : description.problems)
    problems.add(place_of(root, problem.key), fmt::format("model {}: {}", configuration.model.name, problem.message));
  for (const HyperParameter& option : configuration.model.options) {
    const std::int64_t wanted = configuration.data.image_size;
    if (option.key == "image_size" && wanted > 0 && option.value != HyperValue(wanted))
      problems.add(place_of(root, option.key), fmt::format("model.image_size is {}, but data.image_size is {}",
                                                           lacuna::to_string(option.value), wanted));
  }
}

}  // namespace lacuna::apps
