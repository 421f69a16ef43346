// Results of several runs side by side: as rows of a table, a terminal's or a spreadsheet's.
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace lacuna::apps {

/// One run of a command and what became of it.
struct Result {
  std::string id;
  std::string label;                                                     // what tells it from the others
  std::vector<std::pair<std::string, nlohmann::ordered_json>> settings;  // what it was given, as `train.batch_size`
  nlohmann::ordered_json figures;                                        // the command's JSON; null where it failed
  bool failed = false;
  int exit_code = 0;
  std::string error;          // the last lines of its standard error where it failed
  std::string warnings;       // the same where it did not; empty where it wrote none
  std::filesystem::path run;  // its run folder; empty where it has none
};

/// The last part of each path, with as many before it as tell it from the others.
std::map<std::filesystem::path, std::string> shortest_names(const std::set<std::filesystem::path>& paths);

/// Leaves of the settings those that are not the same in all results.
void keep_varying_settings(std::vector<Result>& results);
/// A setting among others on one line, as `adaptive` or `bits 2.5`: with the last part of its key where the value does
/// not show what it is. Empty where there is no value.
std::string phrase_of(const std::string& key, const nlohmann::ordered_json& value);
/// Sets each label to the settings that are not the same in all results.
void set_labels(std::vector<Result>& results);
/// The same in fewer words, for runs that differ in much: the memory policy with its budget or bits, and at most three
/// other settings, those first that tell results apart.
void set_short_labels(std::vector<Result>& results);

/// Figures in one level, as `memory.saved`; what has no single value (`saved_by_path`) is left out.
std::vector<std::pair<std::string, nlohmann::ordered_json>> flat_figures(const nlohmann::ordered_json& figures);

/// One row a result: what it was given and all flat figures; bytes and seconds as they are.
std::string to_csv(const std::vector<Result>& results);

/// What varies and the figures that matter most, for a terminal. Where nothing varies a column has the labels;
/// `what_each_is` heads it.
std::string to_table(const std::vector<Result>& results, const std::string& what_each_is);

}  // namespace lacuna::apps
