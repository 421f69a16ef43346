#include "data/class_names.h"

#include "core/error.h"
#include "data/files/input_file.h"

#include <set>
#include <sstream>
#include <utility>

namespace lacuna {

std::vector<std::string> class_names(const std::string& setting) {
  constexpr std::int64_t longest_file = 64 << 20;
  const bool is_file = setting.ends_with(".txt") && setting.find(',') == std::string::npos;
  std::string text = is_file ? read_text(setting, longest_file) : setting;
  if (!is_file && !text.empty()) text += ',';
  std::istringstream stream(text);
  std::vector<std::string> classes;
  std::set<std::string> seen;
  for (std::string name; std::getline(stream, name, is_file ? '\n' : ',');) {
    name.erase(0, name.find_first_not_of(" \t\r"));
    name.erase(name.find_last_not_of(" \t\r") + 1);
    if (name.empty() && is_file) continue;
    if (name.empty()) reject("data.labels: expected names with commas between them, got `{}`", setting);
    if (!seen.insert(name).second) reject("data.labels: the class `{}` is named twice", name);
    classes.push_back(std::move(name));
  }
  return classes;
}

}  // namespace lacuna
