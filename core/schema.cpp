#include "core/schema.h"

#include "core/registry.h"
#include "core/schema_maps.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace lacuna {
namespace {

constexpr double exactly_counted = 0x1p53;

// Typed readers: an empty text, or what was expected.

std::string read_value(const Tree& from, bool& value, const Limits&) {
  const std::optional<bool> flag = flag_in(from);
  if (!flag) return "true or false";
  value = *flag;
  return {};
}

template <std::integral T>
std::string read_value(const Tree& from, T& value, const Limits& limits) {
  const std::optional<double> number = number_in(from);
  const double most = std::min(exactly_counted, static_cast<double>(std::numeric_limits<T>::max()));
  if (!number || *number != std::floor(*number) || std::abs(*number) > most || !limits.range.contains(*number))
    return to_string(limits.range, true);
  value = static_cast<T>(*number);
  return {};
}

template <std::floating_point T>
std::string read_value(const Tree& from, T& value, const Limits& limits) {
  const std::optional<double> number = number_in(from);
  if (!number || !limits.range.contains(*number)) return to_string(limits.range, false);
  value = static_cast<T>(*number);
  return {};
}

std::string read_value(const Tree& from, std::optional<double>& value, const Limits& limits) {
  return read_value(from, value.emplace(), limits);
}

std::string read_value(const Tree& from, std::string& value, const Limits& limits) {
  return detail::read_choice(from, limits, value);
}

std::string read_value(const Tree& from, std::filesystem::path& value, const Limits&) {
  if (from.kind != Tree::Kind::scalar) return "text";
  value = from.text;
  return {};
}

std::string read_value(const Tree& from, Tree& value, const Limits&) {
  value = from;
  return {};
}

Tree written(const std::string& text) { return text; }
Tree written(const std::filesystem::path& path) { return path.string(); }
Tree written(float number) { return Tree(static_cast<double>(number)); }
Tree written(const std::optional<double>& number) { return number ? Tree(*number) : Tree(); }
Tree written(const auto& value) { return Tree(value); }

std::string type_of(const bool*, const Limits&) { return "true or false"; }
std::string type_of(const std::string*, const Limits&) { return "text"; }
std::string type_of(const std::filesystem::path*, const Limits&) { return "text"; }
std::string type_of(const Tree*, const Limits&) { return "any value"; }
std::string type_of(const Names*, const Limits&) { return "list of texts"; }
template <class T>
requires std::is_arithmetic_v<T> std::string type_of(const T*, const Limits& limits) {
  return to_string(limits.range, std::is_integral_v<T>).substr(2);  // without `a `
}
std::string type_of(const std::optional<double>*, const Limits& limits) {
  return to_string(limits.range, false).substr(2);
}
template <class T>
std::string type_of(const std::vector<T>*, const Limits& limits) {
  return limits.or_one ? "number, or a list of them" : "list of numbers";
}

template <class T>
constexpr bool is_list = false;
template <class T>
constexpr bool is_list<std::vector<T>> = true;

template <class T>
struct ValueCodec {
  static std::string read(const Tree& from, void* value, const Limits& limits, std::string_view key,
                          Problems& problems) {
    T& out = *static_cast<T*>(value);
    if constexpr (is_list<T>) {
      const bool one = std::is_same_v<T, Names> || limits.or_one;
      const std::span<const Tree> items = from.kind == Tree::Kind::list            ? std::span(from.items)
                                          : one && from.kind == Tree::Kind::scalar ? std::span(&from, 1)
                                                                                   : std::span<const Tree>();
      const bool is_list_or_one = from.kind == Tree::Kind::list || !items.empty();
      if (!is_list_or_one || items.size() < limits.least || items.size() > limits.most) {
        const std::string_view what = std::is_same_v<T, Names> ? "texts" : "numbers";
        return limits.least == 0             ? fmt::format("a list of {}", what)
               : limits.least == limits.most ? fmt::format("a list of {} {}", limits.least, what)
                                             : fmt::format("a list of {} to {} {}", limits.least, limits.most, what);
      }
      out.clear();
      for (const Tree& item : items) {
        const std::string expected = read_value(item, out.emplace_back(), limits);
        if (!expected.empty()) problems.add_expected(item, key, expected);
      }
      return {};
    } else {
      return read_value(from, out, limits);
    }
  }
  static Tree write(const void* value) { return written(*static_cast<const T*>(value)); }
  static std::string type(const Limits& limits) { return type_of(static_cast<const T*>(nullptr), limits); }
  static const Codec& get() {
    static const Codec codec{read, write, type};
    return codec;
  }
};

void set_source(Tree& tree, std::string_view source) {
  tree.where.source = source;
  for (Tree& item : tree.items) set_source(item, source);
  for (TreeEntry& entry : tree.entries) set_source(entry.value, source);
}

}  // namespace

std::string to_string(const NumberRange& range, bool whole) {
  return fmt::format("a {}number in [{}, {}{}", whole ? "whole " : "", range.low, range.high,
                     range.below_high ? ')' : ']');
}

template <>
const Codec& codec_of<bool>() {
  return ValueCodec<bool>::get();
}
template <>
const Codec& codec_of<int>() {
  return ValueCodec<int>::get();
}
template <>
const Codec& codec_of<std::int64_t>() {
  return ValueCodec<std::int64_t>::get();
}
template <>
const Codec& codec_of<float>() {
  return ValueCodec<float>::get();
}
template <>
const Codec& codec_of<double>() {
  return ValueCodec<double>::get();
}
template <>
const Codec& codec_of<std::optional<double>>() {
  return ValueCodec<std::optional<double>>::get();
}
template <>
const Codec& codec_of<std::string>() {
  return ValueCodec<std::string>::get();
}
template <>
const Codec& codec_of<Names>() {
  return ValueCodec<Names>::get();
}
template <>
const Codec& codec_of<std::vector<double>>() {
  return ValueCodec<std::vector<double>>::get();
}
template <>
const Codec& codec_of<std::vector<std::int64_t>>() {
  return ValueCodec<std::vector<std::int64_t>>::get();
}
template <>
const Codec& codec_of<std::uint64_t>() {
  return ValueCodec<std::uint64_t>::get();
}
template <>
const Codec& codec_of<std::filesystem::path>() {
  return ValueCodec<std::filesystem::path>::get();
}
template <>
const Codec& codec_of<Tree>() {
  return ValueCodec<Tree>::get();
}
template <>
const Codec& codec_of<std::vector<TreeEntry>>() {
  static const Codec codec{[](const Tree& from, void* value, const Limits&, std::string_view, Problems&) {
                             *static_cast<std::vector<TreeEntry>*>(value) = from.entries;
                             return std::string(from.kind == Tree::Kind::map ? "" : "keys with values");
                           },
                           [](const void* value) {
                             Tree map;
                             map.kind = Tree::Kind::map;
                             map.entries = *static_cast<const std::vector<TreeEntry>*>(value);
                             return map;
                           },
                           [](const Limits&) { return std::string("keys with values"); }};
  return codec;
}

namespace detail {

std::string read_choice(const Tree& from, const Limits& limits, std::string& text) {
  if (from.kind != Tree::Kind::scalar) return "text";
  if (limits.names != nullptr) {
    const Names names = limits.names();
    if (std::ranges::find(names, from.text) == names.end() && (limits.also == nullptr || !limits.also(from.text))) {
      const std::string near = nearest_name(from.text, names);
      return fmt::format("one of {}{}", fmt::join(names, ", "),
                         near.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", near));
    }
  }
  text = from.text;
  return {};
}

Tree written_name(std::string_view name) { return std::string(name); }

void read_rule(const Tree& from, const Fields& fields, void* rule, std::string_view key, Problems& problems) {
  if (from.kind != Tree::Kind::map) return problems.add_expected(from, key, "keys with values");
  Names names;
  for (const Field& field : fields) names.emplace_back(field.name);
  for (const TreeEntry& entry : from.entries) {
    if (const Field* const field = find_field(fields, entry.key))
      read_field(*field, fmt::format("{}: {}", key, entry.key), entry.value, rule, problems);
    else
      problems.add_unknown(entry.where, fmt::format("key of {}:", key), entry.key, names);
  }
  for (const Field& field : fields)
    if (field.must_be_given && from.find(field.name) == nullptr)
      problems.add(from.where, fmt::format("{}: expected `{}`, {}", key, field.name,
                                           field.limits.names == nullptr
                                               ? std::string(field.help)
                                               : fmt::format("one of {}", fmt::join(field.limits.names(), ", "))));
}

Tree written_rule(const Fields& fields, const void* rule) {
  Tree map;
  map.kind = Tree::Kind::map;
  for (const Field& field : fields)
    if (Tree value = field.write(rule); value.kind != Tree::Kind::null)
      map.entries.push_back({std::string(field.name), {}, std::move(value)});
  return map;
}

}  // namespace detail

void read_field(const Field& field, std::string_view key, const Tree& from, void* object, Problems& problems) {
  if (from.kind == Tree::Kind::invalid) return;
  const std::string expected = field.codec->read(from, field.address(object), field.limits, key, problems);
  if (!expected.empty()) problems.add_expected(from, key, expected);
}

void check_values(std::string_view section, const Fields& fields, void* object) {
  Problems problems;
  for (const Field& field : fields) {
    const Tree value = field.write(object);
    if (value.kind != Tree::Kind::null)
      read_field(field, fmt::format("{}.{}", section, field.name), value, object, problems);
  }
  if (!problems.empty()) reject("{}", problems.all().front().message);
}

Options read_options(std::string_view owner, Options defaults, const OptionValues& given) {
  Problems problems;
  Names known;
  for (const Field& field : defaults.fields()) known.emplace_back(field.name);
  for (const auto& [name, value] : given) {
    Tree placed = value;
    set_source(placed, owner);
    if (const Field* const field = defaults.find(name))
      read_field(*field, name, placed, defaults.object(), problems);
    else
      problems.add_unknown(placed.where, "setting", name, known);
  }
  problems.refuse_if_any();
  return defaults;
}

}  // namespace lacuna
