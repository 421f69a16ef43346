// Reading JSON that something else may have written: what is missing or of another type is refused in words.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace lacuna {

/// `origin` names in messages where the JSON stands.
const nlohmann::ordered_json& field(const nlohmann::ordered_json& json, const char* key, std::string_view origin);
/// A whole number from 0 to `most`.
std::int64_t count_in(const nlohmann::ordered_json& json, const char* key, std::string_view origin,
                      std::int64_t most = std::int64_t{1} << 53);
double number_in(const nlohmann::ordered_json& json, const char* key, std::string_view origin);
std::string text_in(const nlohmann::ordered_json& json, const char* key, std::string_view origin);
const nlohmann::ordered_json& object_in(const nlohmann::ordered_json& json, const char* key, std::string_view origin);
std::map<std::string, std::string> texts_in(const nlohmann::ordered_json& json, const char* key,
                                            std::string_view origin);

}  // namespace lacuna
