// Results of several runs side by side: their labels, seeds gathered into groups, tables.
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace lacuna::apps {

/// Values by key, as `train.batch_size` or `memory.saved`.
using NamedCells = std::vector<std::pair<std::string, nlohmann::ordered_json>>;

/// One run of a command.
struct Result {
  enum class State : unsigned char { done, failed, unfinished };

  std::string id;
  std::string label;  // tells it from the others
  NamedCells settings;
  nlohmann::ordered_json figures;  // the command's JSON; null if it failed
  State state = State::done;
  int exit_code = 0;
  std::string error;          // the last lines of its standard error if it failed
  std::string warnings;       // the same if it did not
  std::filesystem::path run;  // its run folder; empty: none
};

std::string name_of(Result::State state);

/// The last part of each path, with as many parts before it as make it unique.
std::map<std::filesystem::path, std::string> shortest_names(const std::set<std::filesystem::path>& paths);

/// Removes the settings that are the same in all results.
void keep_varying_settings(std::vector<Result>& results);
/// A setting in a label, as `adaptive` or `bits 2.5`. Empty if it has no value.
std::string phrase_of(const std::string& key, const nlohmann::ordered_json& value);
/// Sets each label to the settings that differ. Of more than four, those that are needed to tell the results apart: the
/// memory policy first, long values last.
void set_labels(std::vector<Result>& results);

/// Figures in one level, as `memory.saved`; those that are lists or by path are left out.
NamedCells flat_figures(const nlohmann::ordered_json& figures);

/// Finished results that differ in `train.seed` alone; every other result is a group of its own.
struct Group {
  std::string label;
  std::vector<std::size_t> members;  // indices of results
};
std::vector<Group> groups_of(const std::vector<Result>& results);

/// The settings that differ and the main figures, a row per group. Figures of several seeds are mean ± sample
/// deviation.
struct Table {
  std::vector<std::vector<std::string>> rows;  // titles first
  std::size_t texts = 0;                       // the first columns are texts, the others figures
  std::vector<Group> groups;                   // of each row but the titles
  std::optional<std::size_t> best;             // the group with the best figure, if there are several of one metric
  std::string goal;                            // that figure's key
  std::string best_text;                       // as `lr 0.1: best val accuracy 91.20 %`
};
/// `names` heads a column of labels; empty: the settings alone tell the rows apart, if there are any.
Table table_of(const std::vector<Result>& results, const std::string& names);
/// Aligned for a terminal.
std::string to_text(const Table& table);

/// A row per result: settings and all flat figures; bytes and seconds as they are.
std::string to_csv(const std::vector<Result>& results);

}  // namespace lacuna::apps
