#include "apps/sweep_record.h"

#include "apps/json_fields.h"
#include "core/error.h"

#include <algorithm>
#include <filesystem>

namespace lacuna::apps {

using nlohmann::ordered_json;

namespace {

/// The names of a case's configuration files.
std::string configurations_in(const ordered_json& record, std::string_view origin) {
  const ordered_json& given = field(record, "config", origin);
  const ordered_json files = given.is_array() ? given : ordered_json::array({given});
  if (files.empty() || !std::ranges::all_of(files, [](const ordered_json& file) { return file.is_string(); }))
    reject("{}: expected `config` to be a text, or a list of texts", origin);
  std::string names;
  for (const ordered_json& file : files)
    names += fmt::format("{}{}", names.empty() ? "" : " + ",
                         std::filesystem::path(file.get<std::string>()).filename().string());
  return names;
}

}  // namespace

Result to_result(const ordered_json& record, std::string_view origin) {
  constexpr std::int64_t highest_exit_code = 255;
  const auto text_if_there = [&](const char* key) {
    return record.contains(key) ? text_in(record, key, origin) : std::string();
  };
  const std::string status = text_in(record, "status", origin);
  if (status != "done" && status != "failed")
    reject("{}: expected `status` to be \"done\" or \"failed\", got \"{}\"", origin, status);
  Result result;
  result.id = text_in(record, "id", origin);
  result.settings.emplace_back("config", configurations_in(record, origin));
  for (const auto& [key, value] : object_in(record, "overrides", origin).items())
    result.settings.emplace_back(key, value);
  result.failed = status == "failed";
  result.exit_code = static_cast<int>(count_in(record, "exit_code", origin, highest_exit_code));
  if (result.failed)
    result.error = text_in(record, "error", origin);
  else
    result.figures = object_in(record, "result", origin);
  result.warnings = text_if_there("warnings");
  result.run = text_if_there("run");
  return result;
}

std::optional<std::string> failure_of(int code, const std::string& left, const std::string& said) {
  if (code != 0) {
    if (!said.empty()) return said;
    return code > 128 ? fmt::format("ended by signal {}", code - 128) : fmt::format("ended with code {}", code);
  }
  const ordered_json result = ordered_json::parse(left, nullptr, false);
  if (result.is_object()) return {};
  const std::string got = left.empty()            ? "nothing"
                          : result.is_discarded() ? "what is no JSON"
                                                  : fmt::format("JSON of the type {}", result.type_name());
  return fmt::format("ended with code 0, but left no whole result: expected a JSON object, got {}{}{}", got,
                     said.empty() ? "" : "\n", said);
}

}  // namespace lacuna::apps
