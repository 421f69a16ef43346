#include "data/text/entity_labels.h"

#include <algorithm>

namespace lacuna {
namespace {

constexpr std::string_view places = "BIES";  // begin, inside, end, single

struct EntityLabel {
  char place = 'O';
  std::string_view type{};
};
EntityLabel entity_label(std::string_view name) {
  return {name.front(), name.size() > 1 ? name.substr(2) : std::string_view()};
}

bool ends_entity(const EntityLabel& before, const EntityLabel& now) {
  if (before.place == 'O') return false;
  return before.place == 'E' || before.place == 'S' || now.place == 'B' || now.place == 'S' || now.place == 'O' ||
         before.type != now.type;
}
bool begins_entity(const EntityLabel& before, const EntityLabel& now) {
  if (now.place == 'O') return false;
  return now.place == 'B' || now.place == 'S' || before.place == 'E' || before.place == 'S' || before.place == 'O' ||
         before.type != now.type;
}

}  // namespace

bool are_entity_labels(std::span<const std::string> names) {
  const auto is_none = [](const std::string& name) { return name == "O"; };
  const auto is_entity = [](const std::string& name) {
    return !name.empty() && places.find(name.front()) != std::string_view::npos &&
           (name.size() == 1 || (name.size() > 2 && name[1] == '-'));
  };
  return std::ranges::all_of(names, [&](const std::string& name) { return is_none(name) || is_entity(name); }) &&
         !std::ranges::all_of(names, is_none);
}

std::vector<Entity> entities_in(std::span<const std::string_view> labels) {
  std::vector<Entity> entities;
  EntityLabel before;
  std::int64_t first = 0;
  for (std::int64_t i = 0; i <= std::ssize(labels); ++i) {
    const EntityLabel now = i < std::ssize(labels) ? entity_label(labels[static_cast<std::size_t>(i)]) : EntityLabel{};
    if (ends_entity(before, now)) entities.push_back({before.type, first, i - 1});
    if (begins_entity(before, now)) first = i;
    before = now;
  }
  return entities;
}

}  // namespace lacuna
