#include "core/tree.h"

#include "core/error.h"
#include "core/registry.h"
#include "core/text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

namespace lacuna {
namespace {

/// `text` in quotes, as JSON has it. Bytes that are no UTF-8 stay as they are: a path may have them.
std::string in_quotes(std::string_view text) {
  constexpr std::string_view plain = "\"\\\b\f\n\r\t", letters = "\"\\bfnrt";
  std::string quoted = "\"";
  for (const char c : text) {
    if (const std::size_t at = plain.find(c); at != std::string_view::npos)
      quoted += {'\\', letters[at]};
    else if (static_cast<unsigned char>(c) < 0x20)
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    else
      quoted += c;
  }
  return quoted + '"';
}

/// Whether some reader of YAML takes the text for something else: a number in any notation, a time, a truth value.
bool reads_as_other(std::string_view text) {
  const std::string lower = lower_case(text);
  constexpr std::string_view words[] = {"true", "false", "yes",  "no",    "on",    "off",
                                        "y",    "n",     ".inf", "-.inf", "+.inf", ".nan"};
  if (std::ranges::find(words, lower) != std::end(words)) return true;
  const std::size_t first = lower.find_first_not_of("+-.");
  return first != std::string::npos && std::isdigit(static_cast<unsigned char>(lower[first])) != 0 &&
         lower.find_first_not_of("0123456789abcdefox_.:+-") == std::string::npos;
}

/// Whether text can stand in a list as it is and reads back as it was.
bool is_plain(std::string_view text) {
  constexpr std::string_view safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-./";
  return !text.empty() && text.find_first_not_of(safe) == std::string_view::npos && text != "null" && text != "Null" &&
         text != "NULL";
}

}  // namespace

std::string to_string(const Location& where) {
  return where.line == 0 || where.source.empty() ? where.source
                                                 : fmt::format("{}:{}:{}", where.source, where.line, where.column);
}

Tree::Tree() = default;
Tree::Tree(std::string value) : kind(Kind::scalar), text(std::move(value)), quoted(true) {}
Tree::Tree(const char* value) : Tree(std::string(value)) {}
Tree::Tree(double number) : kind(Kind::scalar), text(to_yaml(number)) {}

const TreeEntry* Tree::find(std::string_view key) const {
  const auto found = std::ranges::find(entries, key, &TreeEntry::key);
  return found == entries.end() ? nullptr : &*found;
}

bool Tree::operator==(const Tree& other) const {
  const std::optional<double> number = number_in(*this), others = number_in(other);
  return kind == other.kind && (number || others ? number == others : to_yaml(*this) == to_yaml(other));
}

void Problems::add(const Location& where, std::string_view message) { all_.push_back({where, std::string(message)}); }

void Problems::add_unknown(const Location& where, std::string_view what, std::string_view name,
                           const std::vector<std::string>& known) {
  const std::string near = nearest_name(name, known);
  add(where, near.empty() ? fmt::format("unknown {} \"{}\"; known are {}", what, name, fmt::join(known, ", "))
                          : fmt::format("unknown {} \"{}\", did you mean \"{}\"?", what, name, near));
}

void Problems::add_expected(const Tree& node, std::string_view key, std::string_view what) {
  if (node.kind == Tree::Kind::invalid) return;
  Tree unquoted = node;
  unquoted.quoted = false;
  const bool only_quoted = node.quoted && !what.starts_with("one of") && (number_in(unquoted) || flag_in(unquoted));
  add(node.where, fmt::format("{}: expected {}, got {}{}", key, what, describe(node),
                              only_quoted ? fmt::format("; write {} without quotes", node.text) : ""));
}

void Problems::refuse_if_any() const {
  std::string lines;
  for (const auto& [where, message] : all_)
    lines +=
        fmt::format("{}{}{}{}", lines.empty() ? "" : "\n", to_string(where), where.source.empty() ? "" : ": ", message);
  if (!all_.empty()) reject("{}", lines);
}

std::optional<double> number_in(const Tree& node) {
  if (node.kind != Tree::Kind::scalar || node.quoted || node.text.empty()) return {};
  const char* const begin = node.text.data() + (node.text.front() == '+' ? 1 : 0);
  const char* const end = node.text.data() + node.text.size();
  double value = 0;
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (error != std::errc{} || stop != end || !std::isfinite(value)) return {};
  return value;
}

std::optional<bool> flag_in(const Tree& node) {
  if (node.kind != Tree::Kind::scalar || node.quoted || (node.text != "true" && node.text != "false")) return {};
  return node.text == "true";
}

std::string to_yaml(std::string_view text) {
  return is_plain(text) && text.front() != '-' && !reads_as_other(text) ? std::string(text) : in_quotes(text);
}

std::string to_yaml(double number) {
  std::string text = fmt::format("{}", number);
  if (const std::size_t exponent = text.find('e'); exponent != std::string::npos && text.find('.') == std::string::npos)
    text.insert(exponent, ".0");
  return text;
}

std::string to_yaml(const Tree& node) {
  std::vector<std::string> parts;
  switch (node.kind) {
    case Tree::Kind::scalar:
      if (node.quoted) return to_yaml(std::string_view(node.text));
      return is_plain(node.text) ? node.text : in_quotes(node.text);  // a negative number begins as an item of a list
    case Tree::Kind::list:
      for (const Tree& item : node.items) parts.push_back(to_yaml(item));
      return fmt::format("[{}]", fmt::join(parts, ", "));
    case Tree::Kind::map:
      for (const TreeEntry& entry : node.entries)
        parts.push_back(fmt::format("{}: {}", to_yaml(std::string_view(entry.key)), to_yaml(entry.value)));
      return fmt::format("{{{}}}", fmt::join(parts, ", "));
    default:
      return {};
  }
}

std::string describe(const Tree& node) {
  switch (node.kind) {
    case Tree::Kind::scalar:
      return (node.quoted ? "the text `" : "`") + node.text + '`';
    case Tree::Kind::list:
      return "a list";
    case Tree::Kind::map:
      return "a section";
    default:
      return "nothing";
  }
}

}  // namespace lacuna
