// The functions of chat templates: filters, tests, methods and globals.
#pragma once

#include "data/text/chat/value.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lacuna::chat {

/// The steps and bytes that a rendering may still use.
class Budget {
 public:
  void step();
  /// Counts bytes of values that are made.
  void make(std::size_t bytes);
  /// Counts them before they are made at once: `count` of `bytes` each.
  void make(std::int64_t count, std::size_t bytes);
  /// Counts the work to look for one value in another, or to compare two.
  void search(const Value& all, const Value& one);

 private:
  std::size_t steps_ = 0, bytes_ = 0;
};

/// The arguments of a call, taken in the order of the parameters.
class Arguments {
 public:
  Values positional{};
  std::vector<std::pair<std::string, Value>> named{};

  /// The next positional argument, or the named one; undefined if neither is given.
  Value take(std::string_view name);
  Value take(std::string_view name, Value absent);
  /// Rejects arguments that are left.
  void finish(std::string_view function) const;

 private:
  std::size_t next_ = 0;
};

struct Context {
  Budget& budget;
  const std::string& date;  // as 2024-07-26; empty: not given
};

struct Function {
  std::string_view name;
  Value (*call)(const Value& self, Arguments& arguments, Context& context);
};

/// Null where there is none.
const Function* find_filter(std::string_view name);
const Function* find_test(std::string_view name);
const Function* find_global(std::string_view name);
/// A method of a text or mapping.
const Function* find_method(const Value& self, std::string_view name);

/// `value.name` and `value[key]`; undefined where there is none.
Value attribute(const Value& value, std::string_view name);
Value item(const Value& value, const Value& key);
Value slice(const Value& value, const Value& begin, const Value& end, const Value& step, Budget& budget);
Value arithmetic(char sign, const Value& left, const Value& right, Budget& budget);
bool contains(const Value& all, const Value& one, Budget& budget);

}  // namespace lacuna::chat
