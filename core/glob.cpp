#include "core/glob.h"

#include <fnmatch.h>

#include <string>

namespace lacuna {

bool matches_glob(std::string_view pattern, std::string_view text) {
  return fnmatch(std::string(pattern).c_str(), std::string(text).c_str(), 0) == 0;
}

}  // namespace lacuna
