#include "models/io/tensor_names.h"

#include <algorithm>
#include <charconv>

namespace lacuna {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// `name`, which is like `from`, as `to` has it; `shift` is added to its first number. Nothing where it is not like it.
std::optional<std::string> renamed(std::string_view name, std::string_view from, std::string_view to,
                                   std::int64_t shift) {
  std::vector<std::int64_t> numbers;
  std::size_t at = 0;
  for (const char c : from) {
    if (c != '*') {
      if (at == name.size() || name[at] != c) return {};
      ++at;
      continue;
    }
    std::int64_t number = 0;
    const auto [end, failed] = std::from_chars(name.data() + at, name.data() + name.size(), number);
    if (failed != std::errc() || !is_digit(name[at])) return {};
    at = static_cast<std::size_t>(end - name.data());
    numbers.push_back(numbers.empty() ? number + shift : number);
  }
  const std::string_view rest = name.substr(at);  // of a module's tensor
  if (rest.empty() == from.ends_with('.') || (!numbers.empty() && numbers.front() < 0)) return {};
  std::string result;
  std::size_t next = 0;
  for (const char c : to) result += c == '*' ? std::to_string(numbers[next++]) : std::string(1, c);
  return result.append(rest);
}

bool is_transposed(const TensorNameRule& rule, std::string_view theirs) {
  if (!rule.theirs.ends_with('.')) return rule.transposed;
  return rule.transposed && renamed(theirs, std::string(rule.theirs) + "weight", "", 0).has_value();
}

}  // namespace

std::optional<TensorNames::Place> TensorNames::ours(std::string_view theirs) const {
  const auto find = [](const std::vector<TensorNameRule>& rules, std::string_view name) -> std::optional<Place> {
    for (const TensorNameRule& rule : rules)
      if (auto found = renamed(name, rule.theirs, rule.ours, rule.shift))
        return Place{*found, rule.part, rule.parts, is_transposed(rule, name)};
    return {};
  };
  if (theirs.starts_with(base))
    if (auto place = find(body, theirs.substr(base.size()))) return place;
  return find(heads, theirs);
}

std::vector<TensorNames::Place> TensorNames::every_name(std::string_view ours) const {
  std::vector<Place> places;
  const auto add = [&](const std::vector<TensorNameRule>& rules, std::string_view begin) {
    for (const TensorNameRule& rule : rules)
      if (const auto name = renamed(ours, rule.ours, rule.theirs, -rule.shift))
        places.push_back({std::string(begin) + *name, rule.part, rule.parts, is_transposed(rule, *name)});
  };
  add(body, base);
  add(heads, "");
  std::ranges::stable_sort(places, {}, &Place::part);
  return places;
}

std::vector<TensorNames::Place> TensorNames::theirs(std::string_view ours) const {
  std::vector<Place> places = every_name(ours);
  const auto same_part = [](const Place& a, const Place& b) { return a.part == b.part; };
  places.erase(std::unique(places.begin(), places.end(), same_part), places.end());
  return places;
}

bool TensorNames::ignores(std::string_view theirs) const {
  const auto is_one_of = [](const std::vector<std::string_view>& list, std::string_view name) {
    return std::ranges::any_of(list, [&](std::string_view one) { return renamed(name, one, one, 0).has_value(); });
  };
  return is_one_of(ignored_heads, theirs) ||
         (theirs.starts_with(base) && is_one_of(ignored, theirs.substr(base.size())));
}

}  // namespace lacuna
