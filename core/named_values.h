// A small ordered map from names to values, for the tensors of a sample, the inputs of a model and the like.
#pragma once

#include "core/error.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lacuna {

/// Values in the order in which their names were first set.
template <class Value>
class NamedValues {
 public:
  using Entry = std::pair<std::string, Value>;

  NamedValues() = default;
  NamedValues(std::initializer_list<Entry> entries) {
    for (const Entry& entry : entries) set(entry.first, entry.second);
  }

  /// The value, or null if the name is unknown.
  const Value* find(std::string_view name) const {
    const auto found = std::ranges::find(entries_, name, &Entry::first);
    return found == entries_.end() ? nullptr : &found->second;
  }
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  /// The value. Throws an error that lists the known names if `name` is missing.
  const Value& at(std::string_view name) const {
    const Value* const found = find(name);
    expect(found != nullptr, "expected a value named `{}`, got {}", name, names());
    return *found;
  }
  const Value& operator[](std::string_view name) const { return at(name); }

  void set(std::string_view name, Value value) {
    if (const auto found = std::ranges::find(entries_, name, &Entry::first); found != entries_.end())
      found->second = std::move(value);
    else
      entries_.emplace_back(name, std::move(value));
  }
  /// Removes the value and returns it.
  Value take(std::string_view name) {
    Value value = at(name);
    std::erase_if(entries_, [&](const Entry& entry) { return entry.first == name; });
    return value;
  }

  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  void clear() { entries_.clear(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

  /// The names as text, such as `images, labels`; `nothing` for an empty map.
  std::string names() const {
    std::string text;
    for (const Entry& entry : entries_) text += (text.empty() ? "" : ", ") + entry.first;
    return text.empty() ? "nothing" : text;
  }

 private:
  std::vector<Entry> entries_;
};

}  // namespace lacuna
