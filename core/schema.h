// Tables of options. A struct of options has a row for each of its fields: name, member, limits and help. Reading,
// writing, checks, `lacuna keys` and the documentation follow from the rows.
#pragma once

#include "core/tree.h"

#include <any>
#include <filesystem>
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
  std::function<Names()> names{};                 // empty: any text
  bool (*also)(std::string_view text) = nullptr;  // further texts beside the names, such as `cuda:1`
  bool or_one = false;                            // one number stands for a list of one
  std::size_t least = 0, most = std::numeric_limits<std::size_t>::max();  // items of a list
};
/// Texts among names; `also` tells of further ones.
struct OneOf {
  std::function<Names()> names;
  bool (*also)(std::string_view text) = nullptr;
};
inline OneOf one_of(Names (*names)(), bool (*also)(std::string_view) = nullptr) { return {names, also}; }
inline OneOf one_of(std::initializer_list<const char*> words) {
  return {[names = Names(words.begin(), words.end())] { return names; }};
}

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

enum class Use : std::uint8_t { any, training, augmentation };
/// Marks a field that evaluations do not read.
inline constexpr Use training_only = Use::training;
/// The same of a field that changes a sample from epoch to epoch.
inline constexpr Use augments = Use::augmentation;

/// Whether the value of a field names a file or folder. `if_text_file`: one that ends in `.txt` or `.jinja` does.
enum class PathKind : std::uint8_t { none, path, if_text_file };
inline constexpr PathKind is_path = PathKind::path;

/// Marks a field that has an effect only while another one of its section has one of these values; none: any value but
/// its default.
struct OnlyIf {
  std::string_view key;
  std::vector<std::string_view> values;
};
/// Marks a hyper-parameter that may differ from the weights' model.
inline constexpr struct FitsWeights {
} fits_weights{};
/// Marks a field that has to be given.
struct Required {};
inline constexpr Required required{};
inline constexpr struct OrOne {
} or_one{};  // one number stands for a list of one
/// The number of items of a list.
struct ItemCount {
  std::size_t least, most;
};

/// A row of a table.
struct Field {
  std::string_view name;
  const Codec* codec;
  std::function<void*(void*)> address;  // of the member in an object of the table's struct
  Limits limits{};
  std::string_view help{};
  Use use = Use::any;
  PathKind path = PathKind::none;
  OnlyIf only_if{};
  bool fits_any_weights = false;
  bool must_be_given = false;

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
inline void set(Field& field, PathKind path) { field.path = path; }
inline void set(Field& field, const OnlyIf& only) { field.only_if = only; }
inline void set(Field& field, FitsWeights) { field.fits_any_weights = true; }
inline void set(Field& field, Required) { field.must_be_given = true; }
inline void set(Field& field, OrOne) { field.limits.or_one = true; }
inline void set(Field& field, const ItemCount& count) {
  field.limits.least = count.least;
  field.limits.most = count.most;
}
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
template <class T>
concept HasFields = requires {
  { T::fields() } -> std::convertible_to<Fields>;
};
inline const Field* find_field(std::span<const Field> fields, std::string_view name) {
  for (const Field& field : fields)
    if (field.name == name) return &field;
  return nullptr;
}

/// The rows of a member that is a struct of options itself.
template <class T, class Part>
Fields rows_of(Part T::*member) {
  Fields rows = Part::fields();
  for (Field& row : rows)
    row.address = [inner = row.address, member](void* object) { return inner(&(static_cast<T*>(object)->*member)); };
  return rows;
}
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
  const Field* find(std::string_view name) const { return find_field(fields_, name); }
  void* object() { return object_ == nullptr ? nullptr : object_(value_); }
  Tree write(const Field& field) const { return field.write(const_cast<Options*>(this)->object()); }
  template <class T>
  const T& as() const {
    return std::any_cast<const T&>(value_);
  }
  template <class T>
  T& as() {
    return std::any_cast<T&>(value_);
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
template <>
const Codec& codec_of<std::uint64_t>();
template <>
const Codec& codec_of<std::filesystem::path>();

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

/// Reads the keys of one rule; adds its problems.
void read_rule(const Tree& from, const Fields& fields, void* rule, std::string_view key, Problems& problems);
Tree written_rule(const Fields& fields, const void* rule);

/// A rule may have `std::string problem() const`: the fault of a rule whose values fit; empty: none.
template <HasFields T>
struct RulesCodec {
  static std::string read(const Tree& from, void* value, const Limits&, std::string_view key, Problems& problems) {
    auto& rules = *static_cast<std::vector<T>*>(value);
    rules.clear();
    if (from.kind != Tree::Kind::list) return from.kind == Tree::Kind::null ? "" : "a list of rules";
    const Fields fields = T::fields();
    for (const Tree& item : from.items) {
      const std::size_t others = problems.count();
      T& rule = rules.emplace_back();
      read_rule(item, fields, &rule, key, problems);
      if (problems.count() > others) continue;
      if (const std::string fault = rule.problem(); !fault.empty())
        problems.add(item.where, std::string(key) + ": " + fault);
    }
    return {};
  }
  static Tree write(const void* value) {
    Tree list;
    list.kind = Tree::Kind::list;
    const Fields fields = T::fields();
    for (const T& rule : *static_cast<const std::vector<T>*>(value)) list.items.push_back(written_rule(fields, &rule));
    return list;
  }
  static std::string type(const Limits&) { return "list of rules"; }
};

}  // namespace detail

/// The value of an enumeration by its name; nothing for another text.
template <class E>
std::optional<E> from_name(std::string_view text) {
  for (const auto& [name, value] : names_of(E{}))
    if (name == text) return value;
  return {};
}
template <class E>
std::string_view to_name(E value) {
  for (const auto& [name, one] : names_of(E{}))
    if (one == value) return name;
  return {};
}

/// An enumeration E has a function `names_of(E)`, whose result is a range of pairs of name and value. A list of structs
/// with tables is a list of rules.
template <class T>
const Codec& codec_of() {
  if constexpr (std::is_enum_v<T>) {
    static const Codec codec{detail::EnumCodec<T>::read, detail::EnumCodec<T>::write, detail::EnumCodec<T>::type};
    return codec;
  } else {
    using Rules = detail::RulesCodec<typename T::value_type>;
    static const Codec codec{Rules::read, Rules::write, Rules::type};
    return codec;
  }
}

}  // namespace lacuna
