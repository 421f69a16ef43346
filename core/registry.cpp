#include "core/registry.h"

#include "core/text.h"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace lacuna {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);  // [|b| + 1]: distances of a's prefix to b's prefixes
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

/// The edit distance; a missing suffix of `known` counts as one edit unless `name` is very short.
std::size_t distance_to(std::string_view name, std::string_view known) {
  constexpr std::size_t telling = 4;
  const std::size_t whole = edit_distance(name, known);
  if (name.size() < telling || known.size() <= name.size()) return whole;
  return std::min(whole, edit_distance(name, known.substr(0, name.size())) + 1);
}

}  // namespace

std::string nearest_name(std::string_view name, const std::vector<std::string>& known) {
  std::string best;
  std::size_t least = std::max<std::size_t>(2, name.size() / 3) + 1;
  const std::string wanted = lower_case(std::string(name));
  for (const std::string& candidate : known) {
    if (const std::size_t distance = distance_to(wanted, lower_case(candidate)); distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace lacuna
