// Classes by name.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// Finds classes by name, whatever the Unicode form, and whatever the case of letters if only one class then fits.
class ClassIndex {
 public:
  explicit ClassIndex(const std::vector<std::string>& classes);
  std::optional<std::int32_t> find(std::string_view name) const;

 private:
  std::map<std::string, std::int32_t, std::less<>> exact_, folded_;  // folded: -1 for several
};

}  // namespace lacuna
