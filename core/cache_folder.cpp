#include "core/cache_folder.h"

#include <cstdlib>

namespace lacuna {

std::filesystem::path cache_folder() {
  const auto folder = [](const char* variable) {
    const char* const value = std::getenv(variable);
    return value != nullptr && *value == '/' ? std::filesystem::path(value) : std::filesystem::path();
  };
  if (const std::filesystem::path cache = folder("XDG_CACHE_HOME"); !cache.empty()) return cache / "lacuna";
  const std::filesystem::path home = folder("HOME");
  return home.empty() ? home : home / ".cache" / "lacuna";
}

}  // namespace lacuna
