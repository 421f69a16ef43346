// A tree of values that a user wrote, each with its place: what files, command lines and C++ programs give options as.
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace lacuna {

/// The place of a value; `line` and `column` count from 1, 0 where there are none (the command line).
struct Location {
  std::string source{};
  int line = 0, column = 0;
};
/// As `file:3:5`.
std::string to_string(const Location& where);

struct TreeEntry;

struct Tree {
  /// `invalid` stands for what was reported as a problem already.
  enum class Kind : unsigned char { invalid, null, scalar, list, map };
  Kind kind = Kind::null;
  Location where;
  std::string text;                // of a scalar
  bool quoted = false;             // a quoted scalar is never a number
  std::vector<Tree> items;         // of a list
  std::vector<TreeEntry> entries;  // of a map, in the order of the file

  Tree();
  // NOLINTBEGIN(google-explicit-constructor): values as a program gives them
  template <std::same_as<bool> T>
  Tree(T flag) : kind(Kind::scalar), text(flag ? "true" : "false") {}
  Tree(double number);
  template <std::integral T>
  requires(!std::same_as<T, bool>) Tree(T number) : kind(Kind::scalar), text(std::to_string(number)) {}
  Tree(std::string value);
  Tree(const char* value);
  template <class T>
  Tree(const std::vector<T>& values) : kind(Kind::list), items(values.begin(), values.end()) {}
  // NOLINTEND(google-explicit-constructor)

  /// Null where there is none.
  const TreeEntry* find(std::string_view key) const;
  /// Whether both say the same, wherever they stand.
  bool operator==(const Tree& other) const;
};

struct TreeEntry {
  std::string key;
  Location where;
  Tree value;
};

/// Values by name.
using OptionValues = std::map<std::string, Tree, std::less<>>;

/// The problems of the input, gathered so that the user sees all of it at once.
class Problems {
 public:
  void add(const Location& where, std::string_view message);
  /// `name` is no `what` ("key", "section"): the nearest one that is `known` is offered.
  void add_unknown(const Location& where, std::string_view what, std::string_view name,
                   const std::vector<std::string>& known);
  /// The value of `key` is not `what`. Says nothing of an invalid node, which was reported.
  void add_expected(const Tree& node, std::string_view key, std::string_view what);
  bool empty() const { return all_.empty(); }
  std::size_t count() const { return all_.size(); }
  /// Refuses the input if anything was added: a line for each problem.
  void refuse_if_any() const;

  struct Problem {
    Location where;
    std::string message;
  };
  const std::vector<Problem>& all() const { return all_; }

 private:
  std::vector<Problem> all_;
};

/// The number that an unquoted scalar is: `12`, `1e-4`; nothing for any other node.
std::optional<double> number_in(const Tree& node);
/// The same for `true` and `false`.
std::optional<bool> flag_in(const Tree& node);

/// Text as a scalar that reads back as it was, in a list too; quoted where it has to be.
std::string to_yaml(std::string_view text);
inline std::string to_yaml(const std::string& text) { return to_yaml(std::string_view(text)); }
/// A number, with a point before an exponent: `1e-05` is text to readers of YAML 1.1.
std::string to_yaml(double number);
/// A whole node on one line.
std::string to_yaml(const Tree& node);

/// A node in words: "a list", "`abc`".
std::string describe(const Tree& node);

}  // namespace lacuna
