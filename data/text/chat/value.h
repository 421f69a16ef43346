// Values of chat templates: the values of Python that Jinja's templates see.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace lacuna::chat {

struct Statement;
struct Value;
struct Function;
using Values = std::vector<Value>;

/// A name or key without a value: prints as nothing, is false, and has no attributes.
struct Undefined {
  std::string name{};
};
struct None {};
using Text = std::shared_ptr<const std::string>;  // UTF-8

/// The extent of a list or mapping with all that it holds; shared parts count each time.
struct Extent {
  int depth = 0;
  std::int64_t size = 0;  // values and bytes of texts
};
/// Lists and tuples. No value contains itself.
struct List {
  Values items;
  bool is_tuple = false;
  Extent extent{};
};
/// Keys in their order.
struct Map {
  std::vector<std::pair<std::string, Value>> items;
  Extent extent{};

  const Value* find(std::string_view key) const;
};
/// The one value that changes: `namespace()`.
struct Namespace {
  std::map<std::string, Value, std::less<>> values{};
};
/// The variable `loop`.
struct Loop {
  std::shared_ptr<const List> items;
  std::size_t index = 0;
};
/// A macro: its statement in the template.
struct Macro {
  const Statement* statement;
};
/// A function of a value, such as `text.strip`.
struct Method {
  std::shared_ptr<const Value> self;
  const Function* function;
};
/// A function by name, such as `range`.
struct Global {
  const Function* function;
};

struct Value {
  std::variant<Undefined, None, bool, std::int64_t, double, Text, std::shared_ptr<const List>,
               std::shared_ptr<const Map>, std::shared_ptr<Namespace>, std::shared_ptr<const Loop>, Macro, Method,
               Global>
      is{};

  template <class T>
  const T* get() const {
    return std::get_if<T>(&is);
  }
  template <class T>
  bool has() const {
    return std::holds_alternative<T>(is);
  }
  /// The text, list or map; null for others.
  const std::string* text() const { return pointee<std::string>(); }
  const List* list() const { return pointee<List>(); }
  const Map* map() const { return pointee<Map>(); }

 private:
  template <class T>
  const T* pointee() const {
    const auto* const found = std::get_if<std::shared_ptr<const T>>(&is);
    return found == nullptr ? nullptr : found->get();
  }
};

/// Limits of every value.
inline constexpr int deepest_value = 100;
inline constexpr std::size_t longest_text = std::size_t{16} << 20;     // bytes
inline constexpr std::int64_t largest_value = std::int64_t{64} << 20;  // Extent::size

inline Value undefined(std::string_view name = "") { return {Undefined{std::string(name)}}; }
inline Value none() { return {None{}}; }
/// These reject values beyond the limits.
Value text(std::string value);
Value list(Values items, bool is_tuple = false);
Value map(std::vector<std::pair<std::string, Value>> items);
Value from_json(const nlohmann::ordered_json& json);

/// As Python says the type: `str`, `list`, `NoneType`.
std::string_view type_name(const Value& value);
bool is_true(const Value& value);
bool equal(const Value& left, const Value& right);
/// Negative, 0 or positive; rejects values that have no order.
int compared(const Value& left, const Value& right);
/// A number, with bool as 0 and 1; rejects others.
double number(const Value& value);
/// A whole number, with bool as 0 and 1; rejects others.
std::int64_t whole(const Value& value);
inline bool is_whole(const Value& value) { return value.has<std::int64_t>() || value.has<bool>(); }
inline bool is_number(const Value& value) { return is_whole(value) || value.has<double>(); }

/// Python's str() and repr().
std::string str(const Value& value);
std::string repr(const Value& value);
/// JSON as json.dumps writes it with ensure_ascii=False. `indent` < 0: on one line.
std::string json_text(const Value& value, std::int64_t indent = -1);

/// The elements that a loop sees: items, keys, characters; rejects values without any.
Values elements(const Value& value);
/// The number of elements; rejects values without any.
std::int64_t length(const Value& value);
std::vector<std::string_view> characters(std::string_view text);

}  // namespace lacuna::chat
