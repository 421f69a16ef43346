// Values of a tokenizer's JSON files; errors name file and place.
#pragma once

#include "core/error.h"
#include "core/json.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lacuna {

/// Reads the values of a JSON object. A value of null counts as absent.
class JsonReader {
 public:
  using json = nlohmann::json;

  JsonReader(const json& value, std::string place);

  const json* find(const char* key) const;
  bool flag(const char* key, bool absent) const { return get(key, absent, &json::is_boolean, "true or false"); }
  std::string text(const char* key, const std::string& absent) const {
    return get(key, absent, &json::is_string, "text");
  }
  std::string text(const char* key) const;  // required
  std::int64_t number(const char* key, std::int64_t absent) const {
    return get(key, absent, &json::is_number_integer, "a whole number");
  }
  /// A list, which may not be absent.
  const json& list(const char* key) const;
  JsonReader inner(const char* key) const;
  const json& value() const { return value_; }
  const std::string& place() const { return place_; }

 private:
  const json& required(const char* key) const;
  template <class T>
  T get(const char* key, T absent, bool (json::*is)() const noexcept, const char* expected) const {
    const json* const found = find(key);
    if (found == nullptr) return absent;
    if (!(found->*is)()) reject("{}.{}: expected {}, got {}", place_, key, expected, found->type_name());
    return found->get<T>();
  }

  const json& value_;
  std::string place_;
};

inline constexpr std::int64_t most_token_ids = std::int64_t{1} << 24;
std::int32_t checked_token_id(std::int64_t id, const std::string& place);
/// The id in a JSON value.
std::int32_t token_id_in(const nlohmann::json& value, const std::string& place);

}  // namespace lacuna
