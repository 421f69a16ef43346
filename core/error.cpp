#include "core/error.h"

#include <algorithm>

namespace lacuna {

std::string first_lines(const std::string& list) {
  constexpr int shown = 8;
  std::size_t end = 0;
  for (int i = 0; i < shown && end != std::string::npos; ++i) end = list.find('\n', end + 1);
  if (end == std::string::npos) return list;
  const std::size_t text = std::min(list.find_first_not_of(" \n"), list.size());
  return list.substr(0, end) + list.substr(0, text) +
         fmt::format("and {} more", std::count(list.begin() + static_cast<std::ptrdiff_t>(end), list.end(), '\n'));
}

}  // namespace lacuna
