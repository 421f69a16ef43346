// Tables of options. A struct of options has a row for each of its fields: name, member, limits and help. Reading,
// writing, checks, `lacuna keys` and the documentation follow from the rows.
#pragma once

#include "core/tree.h"

#include <any>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace lacuna {

using Names = std::vector<std::string>;

/// Numbers in [low, high], or in [low, high) if `below_high`.
struct NumberRange {
  double low = 0;
  double high = std::numeric_limits<double>::infinity();
  bool below_high = true;

  bool contains(double number) const { return low <= number && (below_high ? number < high : number <= high); }
};
constexpr NumberRange at_least(double low) { return {.low = low}; }
constexpr NumberRange between(double low, double high) { return {.low = low, .high = high, .below_high = false}; }
constexpr NumberRange up_to(double high) { return between(0, high); }
constexpr NumberRange below(double high) { return {.high = high}; }
/// As `a whole number in [1, 8]`.
std::string to_string(const NumberRange& range, bool whole);

/// The values that a field takes: numbers in a range (not negative, if nothing is said), or one of some names.
struct Limits {
  NumberRange range{};
  Names (*names)() = nullptr;                     // null: any text
  bool (*also)(std::string_view text) = nullptr;  // further texts beside the names, such as `cuda:1`
  bool or_one = false;                            // one number stands for a list of one
};
struct OneOf {
  Names (*names)();
  bool (*also)(std::string_view text) = nullptr;
};
constexpr OneOf one_of(Names (*names)(), bool (*also)(std::string_view) = nullptr) { return {names, also}; }

/// How values of a type are read and written.
struct Codec {
  /// Sets `value`. Returns an empty text, or what was expected; problems of parts are added at their own places.
  std::string (*read)(const Tree& from, void* value, const Limits& limits, std::string_view key, Problems& problems);
  Tree (*write)(const void* value);
  /// As `whole number in [1, 8]`, `text`.
  std::string (*type)(const Limits& limits);
};
template <class T>
const Codec& codec_of();

enum class Use : std::uint8_t { any, training };
/// Marks a field that evaluations do not read.
inline constexpr Use training_only = Use::training;

/// A row of a table.
struct Field {
  std::string_view name;
  const Codec* codec;
  std::function<void*(void*)> address;  // of the member in an object of the table's struct
  Limits limits{};
  std::string_view help{};
  Use use = Use::any;

  Tree write(const void* object) const { return codec->write(address(const_cast<void*>(object))); }
  std::string type() const { return codec->type(limits); }
};

namespace detail {
inline void set(Field& field, const NumberRange& range) { field.limits.range = range; }
inline void set(Field& field, const OneOf& choice) {
  field.limits.names = choice.names;
  field.limits.also = choice.also;
}
inline void set(Field& field, std::string_view help) { field.help = help; }
inline void set(Field& field, Use use) { field.use = use; }
template <class E>
Names enum_names();
}  // namespace detail

/// `field("hflip", &AugmentOptions::hflip, up_to(1), "probability of a horizontal flip")`. `Object`: the table's
/// struct, where the member belongs to a base class of it.
template <class Object = void, class Part, class T, class... Traits>
Field field(std::string_view name, T Part::*member, const Traits&... traits) {
  using Struct = std::conditional_t<std::is_void_v<Object>, Part, Object>;
  Field row{name, &codec_of<T>(), [member](void* object) -> void* { return &(static_cast<Struct*>(object)->*member); }};
  if constexpr (std::is_enum_v<T>) row.limits.names = detail::enum_names<T>;
  (detail::set(row, traits), ...);
  return row;
}

using Fields = std::vector<Field>;
/// The rows of a base class as rows of `T`.
template <class T, class Base>
Fields rows_of_base() {
  static_assert(std::is_base_of_v<Base, T>);
  Fields rows = Base::fields();
  for (Field& row : rows)
    row.address = [inner = row.address](void* object) { return inner(static_cast<Base*>(static_cast<T*>(object))); };
  return rows;
}
inline Fields operator+(Fields first, const Fields& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

template <class T>
concept HasFields = requires {
  { T::fields() } -> std::convertible_to<Fields>;
};

/// A struct of options of any type, with its table. Its values are defaults until they are read.
class Options {
 public:
  Options() = default;
  template <HasFields T>
  Options(T value)  // NOLINT(google-explicit-constructor)
      : fields_(T::fields()),
        value_(std::move(value)),
        object_([](std::any& any) -> void* { return std::any_cast<T>(&any); }) {}

  const Fields& fields() const { return fields_; }
  /// Null where there is none.
  const Field* find(std::string_view name) const;
  void* object() { return object_ == nullptr ? nullptr : object_(value_); }
  Tree write(const Field& field) const { return field.write(const_cast<Options*>(this)->object()); }
  template <class T>
  const T& as() const {
    return std::any_cast<const T&>(value_);
  }

 private:
  Fields fields_;
  std::any value_;
  void* (*object_)(std::any&) = nullptr;
};

/// Reads the value of `field` in an object. A value that does not fit becomes a problem at its place that names `key`.
void read_field(const Field& field, std::string_view key, const Tree& from, void* object, Problems& problems);

/// `defaults` with the given values. All problems are rejected at once, one line each, which begins with `owner`:
/// `optimizer adamw`.
Options read_options(std::string_view owner, Options defaults, const OptionValues& given);
template <HasFields T>
T read_options(std::string_view owner, const OptionValues& given, T defaults = {}) {
  return read_options(owner, Options(std::move(defaults)), given).template as<T>();
}

/// Options of something that has none.
struct NoOptions {
  static Fields fields() { return {}; }
};

// Types of fields.

template <>
const Codec& codec_of<bool>();
template <>
const Codec& codec_of<int>();
template <>
const Codec& codec_of<std::int64_t>();
template <>
const Codec& codec_of<float>();
template <>
const Codec& codec_of<double>();
template <>
const Codec& codec_of<std::optional<double>>();
template <>
const Codec& codec_of<std::string>();
template <>
const Codec& codec_of<Names>();
template <>
const Codec& codec_of<std::vector<double>>();
template <>
const Codec& codec_of<std::vector<std::int64_t>>();

namespace detail {

/// The text of a choice: one of its names.
std::string read_choice(const Tree& from, const Limits& limits, std::string& text);
Tree written_name(std::string_view name);

template <class E>
Names enum_names() {
  Names names;
  for (const auto& [name, value] : names_of(E{})) names.emplace_back(name);
  return names;
}

template <class E>
struct EnumCodec {
  static std::string read(const Tree& from, void* value, const Limits& limits, std::string_view, Problems&) {
    std::string text, expected = read_choice(from, limits, text);
    for (const auto& [name, one] : names_of(E{}))
      if (name == text) *static_cast<E*>(value) = one;
    return expected;
  }
  static Tree write(const void* value) {
    for (const auto& [name, one] : names_of(E{}))
      if (one == *static_cast<const E*>(value)) return written_name(name);
    return {};
  }
  static std::string type(const Limits&) { return "text"; }
};

}  // namespace detail

/// An enumeration E has a function `names_of(E)`, whose result is a range of pairs of name and value.
template <class T>
const Codec& codec_of() {
  static_assert(std::is_enum_v<T>);
  static const Codec codec{detail::EnumCodec<T>::read, detail::EnumCodec<T>::write, detail::EnumCodec<T>::type};
  return codec;
}

}  // namespace lacuna
