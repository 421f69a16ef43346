#include "core/settings.h"

#include "core/registry.h"

#include <algorithm>
#include <cmath>

namespace lacuna {
namespace {

std::string_view type_of(const SettingValue& value) {
  constexpr std::string_view names[] = {"a flag", "a number", "a list of numbers", "a text"};
  return names[value.index()];
}

std::span<const double> numbers_of(const SettingValue& value) {
  if (const auto* const number = std::get_if<double>(&value)) return {number, 1};
  if (const auto* const list = std::get_if<std::vector<double>>(&value)) return *list;
  return {};
}

}  // namespace

bool SettingRange::contains(double number) const {
  if (whole && number != std::floor(number)) return false;
  return low <= number && (below_high ? number < high : number <= high);
}

std::string to_string(const SettingRange& range) {
  return fmt::format("a {}number in [{}, {}{}", range.whole ? "whole " : "", range.low, range.high,
                     range.below_high ? ')' : ']');
}

std::vector<std::string> setting_problems(std::string_view owner, std::span<const Setting> known,
                                          const SettingValues& given) {
  std::vector<std::string> names;
  for (const Setting& setting : known) names.emplace_back(setting.name);
  std::vector<std::string> problems;
  for (const auto& [name, value] : given) {
    const auto setting = std::ranges::find(known, std::string_view(name), &Setting::name);
    if (setting == known.end()) {
      const std::string near = nearest_name(name, names);
      problems.push_back(
          fmt::format("{}: unknown setting {}{}", owner, name, near.empty() ? "" : ": did you mean " + near + "?"));
      continue;
    }
    if (value.index() != setting->initial.index()) {
      problems.push_back(
          fmt::format("{}: {} expected {}, got {}", owner, name, type_of(setting->initial), type_of(value)));
      continue;
    }
    for (const double number : numbers_of(value))
      if (!setting->range.contains(number))
        problems.push_back(fmt::format("{}: {} expected {}, got {}", owner, name, to_string(setting->range), number));
  }
  return problems;
}

Settings::Settings(std::string_view owner, std::span<const Setting> known, const SettingValues& given) {
  std::string message;
  for (const std::string& problem : setting_problems(owner, known, given))
    message += (message.empty() ? "" : "\n") + problem;
  if (!message.empty()) reject("{}", message);
  for (const Setting& setting : known) {
    const auto value = given.find(setting.name);
    values_.emplace(setting.name, value == given.end() ? setting.initial : value->second);
  }
}

}  // namespace lacuna
