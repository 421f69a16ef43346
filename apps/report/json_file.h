// JSON files of a run, of which a report passes over those that are damaged.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <optional>
#include <string_view>

namespace lacuna::apps {

/// The JSON object in `file`. Nothing where there is no such file, or where it is damaged, which a warning says, with
/// what the report does `instead`.
std::optional<nlohmann::ordered_json> read_or_warn(const std::filesystem::path& file, std::string_view instead);

}  // namespace lacuna::apps
