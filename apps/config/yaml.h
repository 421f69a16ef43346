// YAML as configurations use it, strictly: every value knows where it stands, a key stands once, nothing is guessed.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna::apps {

/// Where a value stands; `line` and `column` count from 1, 0 means that they say nothing (the command line).
struct Location {
  std::string source;
  int line = 0, column = 0;
};

/// As `file:3:5`.
std::string to_string(const Location& where);

struct YamlNode;

/// What is wrong with the input, gathered so that the user sees all of it at once.
class Problems {
 public:
  void add(const Location& where, std::string_view message);
  /// `name` is no `what` ("key", "section"): the nearest one that is `known` is offered.
  void add_unknown(const Location& where, std::string_view what, std::string_view name,
                   const std::vector<std::string>& known);
  /// The value of `key` is not `what`. Says nothing of an invalid node, which was reported.
  void add_expected(const YamlNode& node, std::string_view key, std::string_view what);
  bool empty() const { return messages_.empty(); }
  std::size_t count() const { return messages_.size(); }
  /// Refuses the input if anything was added: a line for each problem.
  void refuse_if_any() const;

 private:
  std::vector<std::string> messages_;
};

struct YamlEntry;

struct YamlNode {
  /// `invalid` stands for what was reported as a problem already.
  enum class Kind : unsigned char { invalid, null, scalar, list, map };
  Kind kind = Kind::null;
  Location where;
  std::string text;                // of a scalar
  bool quoted = false;             // a quoted scalar is never a number
  std::vector<YamlNode> items;     // of a list
  std::vector<YamlEntry> entries;  // of a map, in the order of the file

  /// Null where there is none.
  const YamlEntry* find(std::string_view key) const;
};

struct YamlEntry {
  std::string key;
  Location where;
  YamlNode value;
};

/// The items of a list with at least one; a node that is none is a problem with the value of `key`.
const std::vector<YamlNode>& items_of(const YamlNode& node, std::string_view key, std::string_view wanted,
                                      Problems& problems);

/// Where `section.key` stands in a configuration, or its section, or all of it: the nearest there is.
Location place_of(const YamlNode& root, std::string_view section, std::string_view key = {});

/// The number that an unquoted scalar is: `12`, `1e-4`; nothing for any other node.
std::optional<double> number_in(const YamlNode& node);
/// The same for `true` and `false`.
std::optional<bool> flag_in(const YamlNode& node);

/// Text as a scalar that reads back as it was, in a list too; quoted where it has to be.
std::string to_yaml(std::string_view text);
/// A number, with a point before an exponent: `1e-05` is text to readers of YAML 1.1.
std::string to_yaml(double number);
/// A whole node on one line, as the value of an override.
std::string to_yaml(const YamlNode& node);

/// What a node is, in words: "a list", "`abc`".
std::string describe(const YamlNode& node);

/// Reads one document. Duplicate keys, aliases, tags and deep nesting are problems; text that is no YAML is refused at
/// once. An empty document is an empty map. Where `start` has no line, it is the location of everything.
YamlNode parse_yaml(const std::string& text, const Location& start, Problems& problems);
/// The text of a file or a pipe, or of standard input (`-`); refuses one that is missing or larger than a configuration
/// can be.
std::string read_text(const std::filesystem::path& path);

/// `key=value`, where `value` is YAML, as an entry of that key. Its location is the command line. Nothing where it is
/// no such text, which becomes a problem.
std::optional<YamlEntry> parse_assignment(std::string_view assignment, Problems& problems);
/// Whether `assignment` sets `section.key`, by itself or with its whole section.
bool sets(std::string_view assignment, std::string_view section, std::string_view key);
/// Sets `path.to.key=value` in `root`, where `value` is YAML. Its location is the command line.
void apply_override(YamlNode& root, std::string_view assignment, Problems& problems);

}  // namespace lacuna::apps
