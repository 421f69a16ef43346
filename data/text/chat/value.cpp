#include "data/text/chat/value.h"

#include "core/error.h"
#include "data/text/utf8.h"

#include <utf8proc.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace lacuna::chat {

const Value* Map::find(std::string_view key) const {
  const auto found = std::ranges::find(items, key, [](const auto& item) -> const std::string& { return item.first; });
  return found == items.end() ? nullptr : &found->second;
}

namespace {

Extent extent_of(const Value& value) {
  if (const List* const items = value.list()) return items->extent;
  if (const Map* const items = value.map()) return items->extent;
  if (const std::string* const chars = value.text()) return {0, std::ssize(*chars)};
  if (value.has<std::shared_ptr<Namespace>>() || value.has<std::shared_ptr<const Loop>>() || value.has<Method>())
    reject("expected values without {} in a list or mapping", type_name(value));
  return {};
}

void check_depth(int depth) {
  if (depth > deepest_value) reject("expected values of {} levels at most, got deeper ones", deepest_value);
}

void add_part(Extent& whole, const Value& part) {
  const Extent extent = extent_of(part);
  whole.depth = std::max(whole.depth, extent.depth);
  whole.size += extent.size + 1;
  if (whole.size > largest_value) reject("expected values of {} bytes at most, got a larger one", largest_value);
}

void check_text(std::size_t bytes) {
  if (bytes > longest_text) reject("expected texts of {} bytes at most, got a longer one", longest_text);
}

}  // namespace

Value text(std::string value) {
  check_text(value.size());
  return {std::make_shared<const std::string>(std::move(value))};
}

Value list(Values items, bool is_tuple) {
  Extent extent;
  for (const Value& item : items) add_part(extent, item);
  check_depth(++extent.depth);
  return {std::make_shared<const List>(List{std::move(items), is_tuple, extent})};
}

Value map(std::vector<std::pair<std::string, Value>> items) {
  Extent extent;
  for (const auto& [key, item] : items) {
    add_part(extent, item);
    extent.size += std::ssize(key);
  }
  check_depth(++extent.depth);
  return {std::make_shared<const Map>(Map{std::move(items), extent})};
}

namespace {

Value from_json_at(const nlohmann::ordered_json& json, int depth) {
  check_depth(depth);
  if (json.is_null()) return none();
  if (json.is_boolean()) return {json.get<bool>()};
  if (json.is_number_unsigned() && json.get<std::uint64_t>() > std::uint64_t{INT64_MAX})
    reject("expected whole numbers of 64 bits, got {}", json.get<std::uint64_t>());
  if (json.is_number_integer()) return {json.get<std::int64_t>()};
  if (json.is_number()) return {json.get<double>()};
  if (json.is_string()) return text(json.get<std::string>());
  if (json.is_array()) {
    Values items;
    for (const auto& item : json) items.push_back(from_json_at(item, depth + 1));
    return list(std::move(items));
  }
  std::vector<std::pair<std::string, Value>> items;
  for (const auto& [key, item] : json.items()) items.emplace_back(key, from_json_at(item, depth + 1));
  return map(std::move(items));
}

}  // namespace

Value from_json(const nlohmann::ordered_json& json) { return from_json_at(json, 0); }

std::string_view type_name(const Value& value) {
  constexpr std::string_view names[] = {
      "an undefined value", "NoneType", "bool",  "int",    "float",   "str", "list", "dict",
      "namespace",          "loop",     "macro", "method", "function"};
  return names[value.is.index()];
}

bool is_true(const Value& value) {
  if (value.has<Undefined>() || value.has<None>()) return false;
  if (is_number(value)) return number(value) != 0;
  if (const std::string* const chars = value.text()) return !chars->empty();
  if (const List* const items = value.list()) return !items->items.empty();
  if (const Map* const items = value.map()) return !items->items.empty();
  return true;
}

double number(const Value& value) {
  if (const double* const real = value.get<double>()) return *real;
  return static_cast<double>(whole(value));
}

std::int64_t whole(const Value& value) {
  if (const bool* const flag = value.get<bool>()) return *flag ? 1 : 0;
  if (const std::int64_t* const integer = value.get<std::int64_t>()) return *integer;
  if (const Undefined* const missing = value.get<Undefined>()) reject("`{}` is undefined", missing->name);
  reject("expected a number, got {}", type_name(value));
}

bool equal(const Value& left, const Value& right) {
  if (is_whole(left) && is_whole(right)) return whole(left) == whole(right);
  if (is_number(left) && is_number(right)) return number(left) == number(right);
  if (left.is.index() != right.is.index()) return false;
  if (left.has<Undefined>() || left.has<None>()) return true;
  if (const std::string* const chars = left.text()) return *chars == *right.text();
  if (const List* const items = left.list())
    return items == right.list() || std::ranges::equal(items->items, right.list()->items, equal);
  if (const Map* const items = left.map()) {
    if (items == right.map()) return true;
    if (items->items.size() != right.map()->items.size()) return false;
    return std::ranges::all_of(items->items, [&](const auto& item) {
      const Value* const other = right.map()->find(item.first);
      return other != nullptr && equal(item.second, *other);
    });
  }
  if (const Macro* const macro = left.get<Macro>()) return macro->statement == right.get<Macro>()->statement;
  if (const auto* const space = left.get<std::shared_ptr<Namespace>>())
    return *space == *right.get<std::shared_ptr<Namespace>>();
  return false;
}

int compared(const Value& left, const Value& right) {
  if (is_whole(left) && is_whole(right)) return whole(left) < whole(right) ? -1 : whole(left) > whole(right) ? 1 : 0;
  if (is_number(left) && is_number(right))
    return number(left) < number(right) ? -1 : number(left) > number(right) ? 1 : 0;
  if (left.text() != nullptr && right.text() != nullptr) return left.text()->compare(*right.text());
  if (left.list() != nullptr && right.list() != nullptr) {
    const Values &a = left.list()->items, &b = right.list()->items;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
      if (!equal(a[i], b[i])) return compared(a[i], b[i]);
    return a.size() < b.size() ? -1 : a.size() > b.size() ? 1 : 0;
  }
  reject("expected two numbers, texts or lists to compare, got {} and {}", type_name(left), type_name(right));
}

namespace {

std::string real_text(double value) {
  std::string out = fmt::format("{}", value);
  if (out.find_first_of(".en") == std::string::npos) out += ".0";
  return out;
}

/// Python's str.isprintable.
bool is_printable(std::int32_t code) {
  switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    case UTF8PROC_CATEGORY_ZS:
      return code == ' ';
    default:
      return true;
  }
}

std::string quoted(const std::string& value) {
  const char quote = value.find('\'') != std::string::npos && value.find('"') == std::string::npos ? '"' : '\'';
  std::string out(1, quote);
  for (const std::string_view sign : characters(value)) {
    const char c = sign.front();
    const std::int32_t code = first_character(sign).code;
    if (c == quote || c == '\\')
      out += {'\\', c};
    else if (c == '\n' || c == '\t' || c == '\r')
      out += {'\\', c == '\n' ? 'n' : c == '\t' ? 't' : 'r'};
    else if (is_printable(code))
      out += sign;
    else if (code < 0x100)
      out += fmt::format("\\x{:02x}", code);
    else
      out += code < 0x10000 ? fmt::format("\\u{:04x}", code) : fmt::format("\\U{:08x}", code);
  }
  return out + quote;
}

std::string json_quoted(const std::string& value) {
  std::string out = "\"";
  for (const char c : value) {
    constexpr std::string_view escaped = "\"\\\n\r\t\b\f", letters = "\"\\nrtbf";
    if (const std::size_t at = escaped.find(c); at != std::string_view::npos)
      out += {'\\', letters[at]};
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    else
      out += c;
  }
  return out + '"';
}

void write_json(const Value& value, std::int64_t indent, std::int64_t level, std::string& out) {
  const auto start_line = [&](std::int64_t at) {
    if (indent >= 0) out += '\n' + std::string(static_cast<std::size_t>(indent * at), ' ');
  };
  check_text(out.size());
  const char* const comma = indent >= 0 ? "," : ", ";
  if (const std::string* const chars = value.text()) {
    out += json_quoted(*chars);
  } else if (const List* const items = value.list()) {
    out += '[';
    for (std::size_t i = 0; i < items->items.size(); ++i) {
      if (i > 0) out += comma;
      start_line(level + 1);
      write_json(items->items[i], indent, level + 1, out);
    }
    if (!items->items.empty()) start_line(level);
    out += ']';
  } else if (const Map* const entries = value.map()) {
    out += '{';
    for (std::size_t i = 0; i < entries->items.size(); ++i) {
      if (i > 0) out += comma;
      start_line(level + 1);
      out += json_quoted(entries->items[i].first) + ": ";
      write_json(entries->items[i].second, indent, level + 1, out);
    }
    if (!entries->items.empty()) start_line(level);
    out += '}';
  } else if (value.has<None>()) {
    out += "null";
  } else if (const bool* const flag = value.get<bool>()) {
    out += *flag ? "true" : "false";
  } else if (const double* const real = value.get<double>(); real != nullptr && !std::isfinite(*real)) {
    out += std::isnan(*real) ? "NaN" : *real > 0 ? "Infinity" : "-Infinity";
  } else if (is_number(value)) {
    out += str(value);
  } else {
    reject("tojson: expected values of JSON, got {}", type_name(value));
  }
}

}  // namespace

std::string str(const Value& value) {
  if (const std::string* const chars = value.text()) return *chars;
  if (value.has<Undefined>()) return "";
  return repr(value);
}

std::string repr(const Value& value) {
  if (value.has<Undefined>()) return "Undefined";
  if (value.has<None>()) return "None";
  if (const bool* const flag = value.get<bool>()) return *flag ? "True" : "False";
  if (const std::int64_t* const integer = value.get<std::int64_t>()) return fmt::format("{}", *integer);
  if (const double* const real = value.get<double>()) return real_text(*real);
  if (const std::string* const chars = value.text()) return quoted(*chars);
  if (const List* const items = value.list()) {
    std::string out;
    for (const Value& item : items->items) out += (out.empty() ? "" : ", ") + repr(item);
    if (!items->is_tuple) return "[" + out + "]";
    return "(" + out + (items->items.size() == 1 ? ",)" : ")");
  }
  if (const Map* const items = value.map()) {
    std::string out;
    for (const auto& [key, item] : items->items) out += (out.empty() ? "" : ", ") + quoted(key) + ": " + repr(item);
    return "{" + out + "}";
  }
  reject("expected a value that prints as text, got a {}", type_name(value));
}

std::string json_text(const Value& value, std::int64_t indent) {
  std::string out;
  write_json(value, indent, 0, out);
  return out;
}

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> out;
  for (std::size_t at = 0; at < text.size(); at += out.back().size())
    out.push_back(text.substr(at, std::max<std::size_t>(1, first_character(text.substr(at)).bytes)));
  return out;
}

Values elements(const Value& value) {
  Values out;
  if (const List* const items = value.list()) return items->items;
  if (const Map* const items = value.map()) {
    for (const auto& [key, item] : items->items) out.push_back(text(key));
  } else if (const std::string* const chars = value.text()) {
    for (const std::string_view character : characters(*chars)) out.push_back(text(std::string(character)));
  } else if (!value.has<Undefined>()) {
    reject("expected a list, mapping or text, got {}", type_name(value));
  }
  return out;
}

std::int64_t length(const Value& value) {
  if (const List* const items = value.list()) return std::ssize(items->items);
  if (const Map* const items = value.map()) return std::ssize(items->items);
  if (const std::string* const chars = value.text())
    return std::ranges::count_if(*chars, [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; });
  if (value.has<Undefined>()) return 0;
  reject("expected a list, mapping or text, got {}", type_name(value));
}

}  // namespace lacuna::chat
