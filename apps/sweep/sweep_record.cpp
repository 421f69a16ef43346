#include "apps/sweep/sweep_record.h"

#include "models/io/json_fields.h"
#include "core/error.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <span>

namespace lacuna::apps {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

namespace {

using Names = std::map<fs::path, std::string>;

/// A case's configuration files.
std::vector<std::string> configurations_in(const ordered_json& record, std::string_view origin) {
  const ordered_json& given = field(record, "config", origin);
  const ordered_json files = given.is_array() ? given : ordered_json::array({given});
  if (files.empty() || !std::ranges::all_of(files, [](const ordered_json& file) { return file.is_string(); }))
    reject("{}: expected `config` to be a text, or a list of texts", origin);
  return files.get<std::vector<std::string>>();
}

Names names_in(std::span<const ordered_json> records, std::string_view origin) {
  std::set<fs::path> files;
  for (const ordered_json& record : records) {
    const std::vector<std::string> own = configurations_in(record, origin);
    files.insert(own.begin(), own.end());
  }
  return shortest_names(files);
}

Result to_result(const ordered_json& record, std::string_view origin, const Names& names) {
  constexpr std::int64_t highest_exit_code = 255;
  const auto text_if_there = [&](const char* key) {
    return record.contains(key) ? text_in(record, key, origin) : std::string();
  };
  const std::string status = text_in(record, "status", origin);
  if (status != "done" && status != "failed")
    reject("{}: expected `status` to be \"done\" or \"failed\", got \"{}\"", origin, status);
  Result result;
  result.id = text_in(record, "id", origin);
  std::vector<std::string> files = configurations_in(record, origin);
  for (std::string& file : files) file = names.at(file);
  result.settings.emplace_back("config", fmt::format("{}", fmt::join(files, " + ")));
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

}  // namespace

Result to_result(const ordered_json& record, std::string_view origin) {
  return to_result(record, origin, names_in({&record, 1}, origin));
}

std::vector<Result> to_results(const std::vector<ordered_json>& records, std::string_view origin) {
  const Names names = names_in(records, origin);
  std::vector<Result> results;
  for (const ordered_json& record : records) results.push_back(to_result(record, origin, names));
  return results;
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
