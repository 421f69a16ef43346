#include "models/folders/values.h"

#include "core/error.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace lacuna {

using nlohmann::ordered_json;

const ordered_json* ConfigReader::find(const char* key) const { return says(key) ? &json_.at(key) : nullptr; }

void ConfigReader::refuse(const char* key, std::string_view expected) const {
  reject("{}: expected `{}` to be {}, got {}", file_.string(), key, expected,
         json_.contains(key) ? json_.at(key).dump() : "nothing");
}

bool ConfigReader::says(const char* key) const { return json_.contains(key) && !json_.at(key).is_null(); }
std::int64_t ConfigReader::integer(const char* key, std::int64_t otherwise) const {
  const ordered_json* const value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_number_integer()) refuse(key, "a whole number");
  return value->get<std::int64_t>();
}

double ConfigReader::real(const char* key, double otherwise) const {
  const ordered_json* const value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_number()) refuse(key, "a number");
  return value->get<double>();
}

bool ConfigReader::flag(const char* key, bool otherwise) const {
  const ordered_json* const value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) refuse(key, "true or false");
  return value->get<bool>();
}

std::string ConfigReader::text(const char* key, const std::string& otherwise) const {
  const ordered_json* const value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) refuse(key, "a text");
  return value->get<std::string>();
}

std::vector<std::int64_t> ConfigReader::integers(const char* key, const std::vector<std::int64_t>& otherwise) const {
  const ordered_json* const value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_array() || !std::ranges::all_of(*value, [](const auto& one) { return one.is_number_integer(); }))
    refuse(key, "a list of whole numbers");
  return value->get<std::vector<std::int64_t>>();
}

std::vector<double> ConfigReader::numbers(const char* key) const {
  const ordered_json* const value = find(key);
  if (value == nullptr) return {};
  if (value->is_number()) return {value->get<double>()};
  if (!value->is_array() || !std::ranges::all_of(*value, [](const auto& one) { return one.is_number(); }))
    refuse(key, "a list of numbers");
  return value->get<std::vector<double>>();
}

std::vector<std::string> ConfigReader::texts(const char* key) const {
  const ordered_json* const value = find(key);
  if (value == nullptr) return {};
  if (!value->is_array() || !std::ranges::all_of(*value, [](const auto& one) { return one.is_string(); }))
    refuse(key, "a list of texts");
  return value->get<std::vector<std::string>>();
}

std::int64_t ConfigReader::side(const char* key, std::int64_t otherwise) const {
  const ordered_json* const value = find(key);
  if (value == nullptr || !value->is_array()) return integer(key, otherwise);
  const std::vector<std::int64_t> sides = integers(key, {});
  if (sides.empty() || std::ranges::any_of(sides, [&](std::int64_t side) { return side != sides.front(); }))
    refuse(key, "a whole number, or two alike");
  return sides.front();
}

std::optional<Tree> hyper_value(const ordered_json& json) {
  if (json.is_boolean()) return Tree(json.get<bool>());
  if (json.is_number_integer()) return Tree(json.get<std::int64_t>());
  if (json.is_number()) return Tree(json.get<double>());
  if (json.is_string()) return Tree(json.get<std::string>());
  if (json.is_array() && std::ranges::all_of(json, [](const auto& item) { return item.is_number_integer(); }))
    return Tree(json.get<std::vector<std::int64_t>>());
  if (!json.is_object()) return {};
  Tree map;
  map.kind = Tree::Kind::map;
  for (const auto& [key, value] : json.items()) {
    std::optional<Tree> known = hyper_value(value);
    if (!known) return {};
    map.entries.push_back({key, {}, *std::move(known)});
  }
  return map;
}

ordered_json to_json(const Tree& value) {
  if (value.kind == Tree::Kind::list) {
    ordered_json list = ordered_json::array();
    for (const Tree& item : value.items) list.push_back(to_json(item));
    return list;
  }
  if (value.kind == Tree::Kind::map) {
    ordered_json map = ordered_json::object();
    for (const TreeEntry& entry : value.entries) map[entry.key] = to_json(entry.value);
    return map;
  }
  if (const std::optional<bool> flag = flag_in(value)) return *flag;
  const std::optional<double> number = number_in(value);
  if (!number) return value.text;
  if (*number == std::floor(*number) && std::abs(*number) < 0x1p53) return static_cast<std::int64_t>(*number);
  return *number;
}

double ratio_of(std::int64_t hidden, std::int64_t width) {
  const auto wide = static_cast<double>(width);
  const double ratio = static_cast<double>(hidden) / wide;
  return static_cast<std::int64_t>(wide * ratio) == hidden ? ratio : std::nextafter(ratio, 2 * ratio);
}

}  // namespace lacuna
