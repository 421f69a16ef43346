#include "data/text/tokenizers/json_reader.h"

namespace lacuna {

using nlohmann::json;

JsonReader::JsonReader(const json& value, std::string place) : value_(value), place_(std::move(place)) {
  if (!value_.is_object()) reject("{}: expected an object, got {}", place_, value_.type_name());
}

const json* JsonReader::find(const char* key) const {
  const auto found = value_.find(key);
  return found == value_.end() || found->is_null() ? nullptr : &*found;
}

const json& JsonReader::required(const char* key) const {
  const json* const found = find(key);
  if (found == nullptr) reject("{}: expected `{}`, which is missing", place_, key);
  return *found;
}

std::string JsonReader::text(const char* key) const {
  required(key);
  return text(key, "");
}

const json& JsonReader::list(const char* key) const {
  const json& found = required(key);
  if (!found.is_array()) reject("{}.{}: expected a list, got {}", place_, key, found.type_name());
  return found;
}

JsonReader JsonReader::inner(const char* key) const { return {required(key), fmt::format("{}.{}", place_, key)}; }

std::int32_t checked_token_id(std::int64_t id, const std::string& place) {
  if (id < 0 || id >= most_token_ids)
    reject("{}: expected a token id from 0 to {}, got {}", place, most_token_ids - 1, id);
  return static_cast<std::int32_t>(id);
}

std::int32_t token_id_in(const json& value, const std::string& place) {
  if (!value.is_number_integer()) reject("{}: expected a token id, got {}", place, value.type_name());
  return checked_token_id(value.get<std::int64_t>(), place);
}

}  // namespace lacuna
