// Reading JSON that something else may have written: what is missing or of another type is refused in words.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace lacuna {

/// The JSON object in a file of at most `most_bytes`. Rejects a file with other content or nested too deep. Returns
/// nothing if there is no such file.
std::optional<nlohmann::ordered_json> read_json_object(const std::filesystem::path& file,
                                                       std::uintmax_t most_bytes = 64 << 20);

/// The same for a list.
std::optional<nlohmann::ordered_json> read_json_list(const std::filesystem::path& file,
                                                     std::uintmax_t most_bytes = 64 << 20);

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
