// Entities in the labels of words, as B-PER and I-PER: what seqeval, and before it conlleval, counts by default.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// Whether all names are `O`, or B, I, E or S with a type behind it, as `B-PER`; not all `O`.
bool are_entity_labels(std::span<const std::string> names);

/// A run of words with one type.
struct Entity {
  std::string_view type;
  std::int64_t first, last;  // words, both included
  auto operator<=>(const Entity&) const = default;
};
/// The entities in the labels of one sentence, in their order. An I without a B before it begins one, as does another
/// type: seqeval's default, not its strict mode.
std::vector<Entity> entities_in(std::span<const std::string_view> labels);

}  // namespace lacuna
