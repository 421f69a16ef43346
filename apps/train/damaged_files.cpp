#include "apps/train/damaged_files.h"

#include <fmt/format.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

namespace lacuna::apps {

nlohmann::ordered_json to_json(const std::vector<DamagedFile>& damaged) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const DamagedFile& one : damaged) {
    nlohmann::ordered_json& json = list.emplace_back(nlohmann::ordered_json{{"file", one.file}, {"why", one.why}});
    if (!one.instead.empty()) json["instead"] = one.instead;
  }
  return list;
}

namespace {

/// Whether `one` is an entry as `to_json` writes it.
bool is_entry(const nlohmann::json& one) {
  const auto is_text = [&](const char* key) { return one.contains(key) && one[key].is_string(); };
  return one.is_object() && is_text("file") && is_text("why") && (!one.contains("instead") || is_text("instead"));
}

}  // namespace

DamagedInRun damaged_in_run(const std::filesystem::path& metrics) {
  struct Seen {
    std::string why, instead;
    std::int64_t replaced = 0, left_out = 0;
  };
  std::map<std::string, Seen> files;
  std::ifstream lines(metrics);
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object()) continue;
    for (const char* const key : {"replaced", "val_left_out"}) {
      if (!json.contains(key)) continue;
      for (const auto& one : json[key]) {
        if (!is_entry(one)) continue;
        Seen& seen = files[one["file"]];
        seen.why = one["why"];
        if (one.contains("instead")) {
          ++seen.replaced;
          seen.instead = one["instead"];
        } else {
          ++seen.left_out;
        }
      }
    }
  }
  DamagedInRun result{.files = std::ssize(files), .text = {}};
  for (const auto& [file, seen] : files) {
    result.text += fmt::format("\n  {}: {}", file, seen.why);
    if (seen.replaced > 0)
      result.text += fmt::format("; its place was taken {} time{}, last by {}", seen.replaced,
                                 seen.replaced == 1 ? "" : "s", seen.instead);
    if (seen.left_out > 0)
      result.text += fmt::format("; left out of {} evaluation{}", seen.left_out, seen.left_out == 1 ? "" : "s");
  }
  return result;
}

}  // namespace lacuna::apps
