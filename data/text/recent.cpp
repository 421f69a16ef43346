#include "data/text/recent.h"

#include <fmt/core.h>

#include <system_error>

namespace lacuna {

std::string state_of_files(std::initializer_list<std::filesystem::path> files) {
  std::string state;
  for (const std::filesystem::path& file : files) {
    std::error_code ignored;
    const auto size = std::filesystem::file_size(file, ignored);
    const auto time = std::filesystem::last_write_time(file, ignored);
    state += fmt::format("{}|{}|{};", std::filesystem::absolute(file, ignored).native(), size,
                         time.time_since_epoch().count());
  }
  return state;
}

}  // namespace lacuna
