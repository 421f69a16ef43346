#include "nn/weight_formats.h"

#include "core/coded/maps.h"
#include "core/glob.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

namespace lacuna {
namespace {

struct WeightRule {
  std::string_view pattern;  // empty: all
  std::string_view type;
};

WeightRule parse(std::string_view rule, std::string_view key) {
  const std::size_t equals = rule.rfind('=');
  const WeightRule parsed = equals == std::string_view::npos
                                ? WeightRule{{}, rule}
                                : WeightRule{rule.substr(0, equals), rule.substr(equals + 1)};
  if (parsed.pattern.starts_with('@'))
    reject("{}: expected a pattern on parameter names, as `blocks.11.*`, got the set `{}`", key, parsed.pattern);
  if (std::ranges::find(weight_types(), parsed.type) == weight_types().end())
    reject("{}: expected one of {}, or PATTERN=TYPE, got `{}`", key, fmt::join(weight_types(), ", "), rule);
  return parsed;
}

/// Nothing for f32.
std::optional<WeightFormat> format_of(std::string_view type, const Shape& shape) {
  if (type == "bf16") return WeightFormat{};
  if (type == "int8") return format_in_8_bits(shape.count() / shape.front());
  if (type == "nf4") return format_in_4_bits(WeightCode::nf4);
  if (type == "int4") return format_in_4_bits(WeightCode::int4);
  return {};
}

}  // namespace

const std::vector<std::string>& weight_types() {
  static const std::vector<std::string> types{"f32", "bf16", "int8", "nf4", "int4"};
  return types;
}

bool may_be_coded(const Parameter& parameter) {
  return parameter.takes_few_bits() && parameter.shape().count() >= fewest_coded_elements;
}

void check_weight_rules(const WeightRules& given) {
  if (given.rules.size() == 1 && given.rules.front() == automatic_weights) return;
  for (const std::string& rule : given.rules) parse(rule, given.key);
}

WeightFormats weight_formats(const Module& model, const WeightRules& given, const WeightFormats& stored) {
  const std::span<const std::string> rules = given.rules;
  WeightFormats formats;
  std::vector<bool> matched(rules.size());
  for (const Parameter* const parameter : model.parameters()) {
    if (parameter->trainable() || !may_be_coded(*parameter)) continue;
    const auto applies = [&](const std::string& one) {
      const std::string_view pattern = parse(one, given.key).pattern;
      return pattern.empty() || matches_glob(pattern, parameter->path());
    };
    if (const auto rule = std::ranges::find_if(rules, applies); rule != rules.end()) {
      matched[static_cast<std::size_t>(rule - rules.begin())] = true;
      if (const auto format = format_of(parse(*rule, given.key).type, parameter->shape()))
        formats.emplace(parameter->path(), *format);
    } else if (const auto found = stored.find(parameter->path()); found != stored.end()) {
      formats.insert(*found);
    }
  }
  for (std::size_t i = 0; i < rules.size(); ++i)
    if (!matched[i] && parse(rules[i], given.key).type != "f32")
      reject(
          "{}: `{}` has no effect: no frozen weight of a linear layer, a convolution or a table of {} "
          "elements or more {}; an adapter, freeze.train or freeze.freeze freezes weights",
          given.key, rules[i], fewest_coded_elements,
          parse(rules[i], given.key).pattern.empty() ? "is left" : "is left that it matches");
  return formats;
}

WeightFormats trained_formats(const Module& model) {
  WeightFormats formats;
  for (const Parameter* const parameter : model.parameters())
    if (parameter->trainable() && may_be_coded(*parameter)) formats.emplace(parameter->path(), WeightFormat{});
  if (formats.empty())
    reject(
        "train.weights: bf16 has no effect: no weight of a linear layer, a convolution or a table of {} elements or "
        "more is trained",
        fewest_coded_elements);
  return formats;
}

std::string_view type_name(const Tensor& tensor) {
  return tensor.is_coded() ? name_of(tensor.format().code) : name_of(tensor.dtype());
}

}  // namespace lacuna
