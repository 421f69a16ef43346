// Includes flow one way: core <- ops <- autograd <- nn <- optim <- models <- apps <- python; data beside ops. Within
// apps: output <- config <- train <- report <- commands; sweep beside commands. Data sets, model families and tasks
// alone name fields.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>

namespace {

const std::map<std::string, std::set<std::string>> may_see{
    {"core", {"core"}},
    {"mpi", {"core", "mpi"}},
    {"ops", {"core", "ops"}},
    {"autograd", {"core", "ops", "autograd"}},
    {"nn", {"core", "ops", "autograd", "nn"}},
    {"optim", {"core", "ops", "autograd", "nn", "optim"}},
    {"data", {"core", "data"}},
    {"models", {"core", "ops", "autograd", "nn", "optim", "data", "models"}},
    {"apps", {"core", "ops", "autograd", "nn", "optim", "data", "models", "apps"}},
    {"python", {"core", "ops", "autograd", "nn", "optim", "data", "models", "apps", "python"}},
};

/// The folders of apps/. The files beside them see the first alone, and all see those files.
const std::map<std::string, std::set<std::string>> may_see_in_apps{
    {"apps/output", {"apps/output"}},
    {"apps/config", {"apps/output", "apps/config"}},
    {"apps/train", {"apps/output", "apps/config", "apps/train"}},
    {"apps/report", {"apps/output", "apps/config", "apps/train", "apps/report"}},
    {"apps/commands", {"apps/output", "apps/config", "apps/train", "apps/report", "apps/commands"}},
    {"apps/sweep", {"apps/output", "apps/config", "apps/train", "apps/report", "apps/sweep"}},
};

const std::regex include_layer(R"re(^\s*#\s*include\s*"([^"/]*)/?[^"]*")re");
const std::regex include_folder_of_apps(R"re(^\s*#\s*include\s*"(apps/[^"/]*)/[^"]*")re");

/// The lines of a file that include what its folder may not see.
std::vector<std::string> offences(const std::filesystem::path& file, const std::string& folder,
                                  const std::set<std::string>& seen, const std::regex& include_line, int& includes) {
  std::vector<std::string> found;
  std::ifstream text(file);
  int number = 0;
  for (std::string line; std::getline(text, line);) {
    ++number;
    std::smatch match;
    if (!std::regex_search(line, match, include_line)) continue;
    ++includes;
    if (!seen.contains(match[1]))
      found.push_back(fmt::format("{}:{}: {} may not see: {}", file.string(), number, folder, line));
  }
  return found;
}

/// The offences in all files. A folder without any include also counts as one, since it was probably not found.
std::vector<std::string> offences(const std::map<std::string, std::set<std::string>>& arrows,
                                  const std::regex& include_line) {
  std::vector<std::string> all;
  for (const auto& [folder, seen] : arrows) {
    int includes = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(LACUNA_SOURCE_DIR "/" + folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".h" && extension != ".cpp" && extension != ".cu") continue;
      for (std::string& offence : offences(entry.path(), folder, seen, include_line, includes))
        all.push_back(std::move(offence));
    }
    if (includes == 0) all.push_back("nothing is included in " + folder);
  }
  return all;
}

/// Fields of samples are found by kind elsewhere.
const std::set<std::string> names_of_fields{R"("images")", R"("tokens")", R"("labels")"};

/// The files that name fields: data sets and their bases of texts and of graphs, the bases of model families, tasks,
/// and the names of kinds. `models/folders` names keys and heads of other libraries.
const std::set<std::string> may_name_fields{
    "data/sets",      "data/text",        "data/graphs",          "data/segmentation",      "data/detection",
    "data/drawing",   "data/field.cpp",   "models/tasks",         "models/image_model.cpp", "models/text_encoder.cpp",
    "models/decoder", "models/detection", "models/sequences.cpp", "models/folders"};
bool is_below(const std::string& file, const std::set<std::string>& places) {
  return std::ranges::any_of(places, [&](const std::string& place) { return file.starts_with(place); });
}

}  // namespace

TEST_CASE("data sets, model families and tasks alone name fields; everyone else finds them by kind") {
  std::vector<std::string> named;
  for (const auto& [layer, seen] : may_see)
    for (const auto& entry : std::filesystem::recursive_directory_iterator(LACUNA_SOURCE_DIR "/" + layer)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".h" && extension != ".cpp" && extension != ".cu") continue;
      const std::string file = entry.path().lexically_relative(LACUNA_SOURCE_DIR).generic_string();
      if (is_below(file, may_name_fields)) continue;
      std::ifstream text(entry.path());
      int number = 0;
      for (std::string line; std::getline(text, line);) {
        ++number;
        for (const std::string& name : names_of_fields)
          if (line.find(name) != std::string::npos) named.push_back(fmt::format("{}:{}: {}", file, number, line));
      }
    }
  const std::vector<std::string> none;
  CHECK(named == none);
}

TEST_CASE("includes flow one way") {
  const std::vector<std::string> none;
  CHECK(offences(may_see, include_layer) == none);
  CHECK(offences(may_see_in_apps, include_folder_of_apps) == none);
}
