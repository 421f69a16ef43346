// Tables of named things (ops, models, optimizers). Each source file registers its own; there is no central list.
#pragma once

#include "core/error.h"
#include "core/version.h"

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// The name in `known`, or a prefix of one, with the smallest edit distance to `name`; empty if none is close.
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

/// Map from names to values (usually factories), sorted by name.
template <class Value>
class Registry {
 public:
  /// `kind` is the noun for the values in messages: "model", "memory policy".
  explicit Registry(std::string_view kind) : kind_(kind) {}

  void add(std::string_view name, Value value) {
    expect(values_.emplace(name, std::move(value)).second, "{} {} is registered twice", kind_, name);
  }
  bool contains(std::string_view name) const { return values_.find(name) != values_.end(); }
  const Value& get(std::string_view name) const {
    const auto found = values_.find(name);
    if (found != values_.end()) return found->second;
    const std::string near = nearest_name(name, names());
    if (!near.empty()) reject("unknown {} {}: did you mean {}?", kind_, name, near);
    std::string all;
    for (const std::string& known : names()) all += (all.empty() ? "" : ", ") + known;
    reject("unknown {} {}: known are {}", kind_, name, all);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : values_) names.push_back(entry.first);
    return names;
  }

 private:
  std::string kind_;
  std::map<std::string, Value, std::less<>> values_;
};

}  // namespace lacuna
