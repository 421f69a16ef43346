// Includes flow one way: core <- ops <- autograd <- nn <- models <- apps; optim beside nn, data beside ops.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>

namespace {

const std::map<std::string, std::set<std::string>> may_see{
    {"core", {"core"}},
    {"ops", {"core", "ops"}},
    {"autograd", {"core", "ops", "autograd"}},
    {"nn", {"core", "ops", "autograd", "nn"}},
    {"optim", {"core", "ops", "autograd", "nn", "optim"}},
    {"data", {"core", "data"}},
    {"models", {"core", "ops", "autograd", "nn", "data", "models"}},
    {"apps", {"core", "ops", "autograd", "nn", "optim", "data", "models", "apps"}},
};

/// The lines of a file that include what its layer may not see.
std::vector<std::string> offences(const std::filesystem::path& file, const std::string& layer, int& includes) {
  static const std::regex include_line(R"re(^\s*#\s*include\s*"([^"/]*)/?[^"]*")re");
  std::vector<std::string> found;
  std::ifstream text(file);
  int number = 0;
  for (std::string line; std::getline(text, line);) {
    ++number;
    std::smatch match;
    if (!std::regex_search(line, match, include_line)) continue;
    ++includes;
    if (!may_see.at(layer).contains(match[1]))
      found.push_back(fmt::format("{}:{}: {} may not see: {}", file.string(), number, layer, line));
  }
  return found;
}

}  // namespace

TEST_CASE("includes flow one way") {
  for (const auto& one : may_see) {
    const std::string& layer = one.first;
    int includes = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(LACUNA_SOURCE_DIR "/" + layer)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".h" && extension != ".cpp" && extension != ".cu") continue;
      for (const std::string& offence : offences(entry.path(), layer, includes)) FAIL_CHECK(offence);
    }
    CHECK_MESSAGE(includes > 0, "nothing is included in ", layer);
  }
}
