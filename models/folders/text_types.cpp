#include "models/folders/text_types.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <list>

namespace lacuna {
namespace {

/// A rule whose names live as long as the program.
std::string_view kept(std::string name) {
  static std::list<std::string> names;
  return names.emplace_back(std::move(name));
}

}  // namespace

std::vector<TensorNameRule> own_names(std::string_view base, std::initializer_list<std::string_view> modules,
                                      std::initializer_list<std::string_view> norms) {
  std::vector<TensorNameRule> rules;
  const auto add = [&](std::string theirs, const std::string& ours) {
    rules.push_back({kept(std::move(theirs)), kept(std::string(base) + ours)});
  };
  for (const std::string_view module : modules) add(std::string(module), std::string(module));
  for (const std::string_view norm : norms)
    for (const auto& [theirs, ours] :
         {std::pair{"weight", "weight"}, {"bias", "bias"}, {"gamma", "weight"}, {"beta", "bias"}})
      add(std::string(norm) + theirs, std::string(norm) + ours);
  return rules;
}

std::string head_of(const ConfigReader& config) {
  if (!config.says("architectures")) return {};
  const nlohmann::ordered_json& names = config.json().at("architectures");
  if (!names.is_array() || names.empty() || !names.front().is_string()) return {};
  const std::string name = names.front().get<std::string>();
  for (const auto& [suffix, head] : {std::pair{"ForSequenceClassification", "classification"},
                                     {"ForTokenClassification", "tokens"},
                                     {"ForQuestionAnswering", "span"},
                                     {"ForMaskedLM", "masked_lm"},
                                     {"ForPreTraining", "masked_lm"},
                                     {"Model", "embedding"}})
    if (name.ends_with(suffix)) return head;
  return {};
}

void write_values(const Options& options, std::initializer_list<const char*> keys, nlohmann::ordered_json& config) {
  for (const char* const key : keys) config[key] = to_json(options.write(*options.find(key)));
}

std::string class_name(std::string_view prefix, const Options& options) {
  const std::string head = options.write(*options.find("head")).text;
  const std::string_view suffix = head == "tokens"      ? "ForTokenClassification"
                                  : head == "span"      ? "ForQuestionAnswering"
                                  : head == "masked_lm" ? "ForMaskedLM"
                                  : head == "embedding" ? "Model"
                                                        : "ForSequenceClassification";
  return fmt::format("{}{}", prefix, suffix);
}

}  // namespace lacuna
