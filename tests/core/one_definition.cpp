// A type outside an unnamed namespace has one definition. The linker keeps one of two and says nothing: the other
// file's objects then have the wrong members.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

const std::regex namespace_begins(R"(^(inline )?namespace ([\w:]+ )?\{)");
const std::regex namespace_ends(R"(^\}  // namespace( [\w:]+)?)");
const std::regex type_begins(
    R"(^(class|struct|union|enum class|enum)( \[\[[^\]]*\]\])? (\w+)( final)?( :.*)?( \{.*)?$)");

/// Notes the types that `file` defines outside unnamed namespaces. Code is formatted: what belongs to a namespace is
/// not indented.
void note_types(const std::filesystem::path& file, std::map<std::string, std::set<std::string>>& files_of) {
  std::ifstream text(file);
  std::vector<std::string> within;

  for (std::string line; std::getline(text, line);) {
    std::smatch match;
    if (std::regex_search(line, match, namespace_begins)) {
      within.push_back(match[2].matched ? match[2].str() : "");
    } else if (std::regex_search(line, namespace_ends)) {
      if (!within.empty()) within.pop_back();
    } else if (std::regex_search(line, match, type_begins) && !std::ranges::count(within, "")) {
      std::string name;
      for (const std::string& outer : within) name += outer + "::";
      files_of[name + match[3].str()].insert(file.string());
    }
  }
}

TEST_CASE("a type outside unnamed namespaces is defined in one file") {
  std::map<std::string, std::set<std::string>> files_of;
  for (const char* folder : {"core", "mpi", "ops", "autograd", "nn", "optim", "data", "models", "apps", "python"})
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(std::filesystem::path(LACUNA_SOURCE_DIR) / folder))
      if (const auto end = entry.path().extension(); end == ".h" || end == ".cpp" || end == ".cu")
        note_types(entry.path(), files_of);
  CHECK(files_of.size() > 300);
  for (const auto& [name, files] : files_of) {
    std::string list;
    for (const std::string& file : files) list += "\n  " + file;
    CHECK_MESSAGE(files.size() == 1, name, " is defined in", list);
  }
}

}  // namespace
