#include "apps/config/paths.h"

#include "apps/config/schema.h"
#include "core/error.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <regex>
#include <string>
#include <variant>

namespace lacuna::apps {
namespace {

namespace fs = std::filesystem;

fs::path home_of(const std::string& user) {
  const char* const home = std::getenv("HOME");
  if (user.empty() && home != nullptr && *home != '\0') return home;
  const passwd* const entry = user.empty() ? ::getpwuid(::getuid()) : ::getpwnam(user.c_str());
  if (entry == nullptr) reject("~{}: there is no home folder of this user", user);
  return entry->pw_dir;
}

}  // namespace

fs::path expand_home(const fs::path& path) {
  const std::string text = path.string();
  if (!text.starts_with('~')) return path;
  const std::size_t end = std::min(text.find('/'), text.size());
  return home_of(text.substr(1, end - 1)) / fs::path(text.substr(std::min(end + 1, text.size())));
}

std::string missing_text(const std::string& path) {
  static const std::regex hub_name("[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9_.-]+)?");
  const std::string missing = fmt::format("{} does not exist", path);
  if (!std::regex_match(path, hub_name)) return missing;
  return fmt::format("{}; Lacuna downloads nothing: `hf download {} --local-dir {}` fetches it from the hub", missing,
                     path, path);
}

void change_paths(Configuration& configuration, const std::function<std::string(const std::string&)>& change) {
  const auto is_one = [](const Field& field, const std::string& text) {
    const bool is_text_file = text.ends_with(".txt") || text.ends_with(".jinja");
    return !text.empty() && text != "host" &&  // of memory.offload
           (field.path == PathKind::path || (field.path == PathKind::if_text_file && is_text_file));
  };
  for (const Section& section : sections()) {
    for (const Field& field : section.fields) {
      if (field.path == PathKind::none) continue;
      Tree value = field.write(&configuration);
      if (!is_one(field, value.text)) continue;
      value.text = change(value.text);
      Problems none;
      read_field(field, field.name, value, &configuration, none);
    }
    if (section.given == nullptr) continue;
    const Options& options = section.options(section.chosen(configuration));
    for (auto& [name, value] : section.given(configuration))
      if (const Field* const field = options.find(name); field != nullptr && is_one(*field, value.text))
        value.text = change(value.text);
  }
}

Configuration with_absolute_paths(Configuration configuration) {
  change_paths(configuration, [](const std::string& path) { return fs::absolute(path).lexically_normal().string(); });
  return configuration;
}

}  // namespace lacuna::apps
