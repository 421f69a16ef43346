#include "apps/config/paths.h"

#include "core/error.h"
#include "models/task.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
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

std::string absolute(const std::string& path) {
  return path.empty() ? path : fs::absolute(path).lexically_normal().string();
}

}  // namespace

fs::path expand_home(const fs::path& path) {
  const std::string text = path.string();
  if (!text.starts_with('~')) return path;
  const std::size_t end = std::min(text.find('/'), text.size());
  return home_of(text.substr(1, end - 1)) / fs::path(text.substr(std::min(end + 1, text.size())));
}

std::vector<std::string*> paths_in(Configuration& configuration) {
  std::vector<std::string*> paths{&configuration.data.path, &configuration.model.from, &configuration.adapter.from,
                                  &configuration.memory.plan_file, &configuration.output.dir};
  if (configuration.memory.offload != "host") paths.push_back(&configuration.memory.offload);
  for (const char* const name : {"tokenizer", "validation", "val_labels", "labels", "images"})  // of data sets
    if (const auto found = configuration.data.options.find(name); found != configuration.data.options.end())
      if (found->first != "labels" || found->second.text.ends_with(".txt")) paths.push_back(&found->second.text);
  if (!tasks().contains(configuration.task.name)) return paths;
  for (auto& [name, value] : configuration.task.options)
    if (std::ranges::count(tasks().get(configuration.task.name).weights, name) > 0) paths.push_back(&value.text);
  return paths;
}

Configuration with_absolute_paths(Configuration configuration) {
  for (std::string* const path : paths_in(configuration)) *path = absolute(*path);
  return configuration;
}

}  // namespace lacuna::apps
