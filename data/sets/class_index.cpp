#include "data/sets/class_index.h"

#include "core/text.h"
#include "data/text/utf8.h"

namespace lacuna {

ClassIndex::ClassIndex(const std::vector<std::string>& classes) {
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const auto number = static_cast<std::int32_t>(i);
    const std::string name = composed(classes[i]);
    exact_.try_emplace(name, number);
    const auto [entry, fresh] = folded_.try_emplace(lower_case(name), number);
    if (!fresh) entry->second = -1;
  }
}

std::optional<std::int32_t> ClassIndex::find(std::string_view name) const {
  const std::string wanted = composed(name);
  if (const auto found = exact_.find(wanted); found != exact_.end()) return found->second;
  const auto found = folded_.find(lower_case(wanted));
  return found == folded_.end() || found->second < 0 ? std::nullopt : std::optional(found->second);
}

}  // namespace lacuna
