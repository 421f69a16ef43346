#include "core/module_path.h"

#include <algorithm>

namespace lacuna {

std::string with_any_number(std::string_view path) {
  std::string text;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    const bool is_number = !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    if (begin > 0) text += '.';
    if (is_number)
      text += '*';
    else
      text += part;
    begin = end + 1;
  }
  return text;
}

}  // namespace lacuna
