#include "models/io/json_fields.h"

#include "core/error.h"
#include "core/json.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <iterator>

namespace lacuna {

using nlohmann::ordered_json;

namespace {

std::optional<ordered_json> read_json(const std::filesystem::path& file, std::uintmax_t most_bytes,
                                      bool (ordered_json::*is_kind)() const noexcept, std::string_view kind) {
  std::error_code failed;
  if (!std::filesystem::is_regular_file(file, failed)) return {};
  const std::uintmax_t bytes = std::filesystem::file_size(file, failed);
  if (failed) reject("cannot read {}: {}", file.string(), failed.message());
  if (bytes > most_bytes) reject("{}: expected {} bytes at most, got {}", file.string(), most_bytes, bytes);
  std::ifstream stream(file, std::ios::binary);
  if (!stream) reject("cannot open {}", file.string());
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  check_json_depth(text, file.string());
  ordered_json json = ordered_json::parse(text, nullptr, false);
  if (!(json.*is_kind)()) reject("{}: expected a JSON {}", file.string(), kind);
  return json;
}

}  // namespace

std::optional<ordered_json> read_json_object(const std::filesystem::path& file, std::uintmax_t most_bytes) {
  return read_json(file, most_bytes, &ordered_json::is_object, "object");
}

std::optional<ordered_json> read_json_list(const std::filesystem::path& file, std::uintmax_t most_bytes) {
  return read_json(file, most_bytes, &ordered_json::is_array, "list");
}

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
