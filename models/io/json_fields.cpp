#include "models/io/json_fields.h"

#include "core/error.h"

#include <cmath>

namespace lacuna {

using nlohmann::ordered_json;

const ordered_json& field(const ordered_json& json, const char* key, std::string_view origin) {
  if (!json.is_object() || !json.contains(key)) reject("{}: expected `{}`, found none", origin, key);
  return json.at(key);
}

std::int64_t count_in(const ordered_json& json, const char* key, std::string_view origin, std::int64_t most) {
  const ordered_json& value = field(json, key, origin);
  if (!value.is_number_integer() || value.get<std::int64_t>() < 0 || value.get<std::int64_t>() > most)
    reject("{}: expected `{}` to be a whole number from 0 to {}", origin, key, most);
  return value.get<std::int64_t>();
}

double number_in(const ordered_json& json, const char* key, std::string_view origin) {
  const ordered_json& value = field(json, key, origin);
  if (!value.is_number() || !std::isfinite(value.get<double>()))
    reject("{}: expected `{}` to be a number", origin, key);
  return value.get<double>();
}

std::string text_in(const ordered_json& json, const char* key, std::string_view origin) {
  const ordered_json& value = field(json, key, origin);
  if (!value.is_string()) reject("{}: expected `{}` to be a text", origin, key);
  return value.get<std::string>();
}

const ordered_json& object_in(const ordered_json& json, const char* key, std::string_view origin) {
  const ordered_json& value = field(json, key, origin);
  if (!value.is_object()) reject("{}: expected `{}` to hold keys with values", origin, key);
  return value;
}

std::map<std::string, std::string> texts_in(const ordered_json& json, const char* key, std::string_view origin) {
  const ordered_json& object = field(json, key, origin);
  if (!object.is_object()) reject("{}: expected `{}` to hold keys with texts", origin, key);
  std::map<std::string, std::string> texts;
  for (const auto& [name, text] : object.items()) {
    if (!text.is_string()) reject("{}: expected `{}` to hold keys with texts", origin, key);
    texts.emplace(name, text.get<std::string>());
  }
  return texts;
}

}  // namespace lacuna
