#include "apps/config/yaml.h"

#include "core/error.h"
#include "core/registry.h"

#include <fmt/ranges.h>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <utility>

namespace lacuna::apps {
namespace {

constexpr std::size_t max_depth = 16;
constexpr std::size_t max_file_bytes = 1 << 20;

Location locate(const Location& start, const YAML::Mark& mark) {
  return start.line == 0 ? start : Location{start.source, start.line + mark.line, mark.column + 1};
}

/// The value of `key`, which is added to the map where it is new.
YamlEntry& entry_at(YamlNode& map, std::string_view key, const Location& where) {
  const auto found = std::ranges::find(map.entries, key, &YamlEntry::key);
  if (found != map.entries.end()) return *found;
  map.entries.push_back({std::string(key), where, {}});
  map.entries.back().value.where = where;
  return map.entries.back();
}

/// Takes over the parser's tree, which keeps places, quotes and repeated keys.
class TreeReader {
 public:
  TreeReader(const Location& start, Problems& problems) : start_(start), problems_(problems) {}

  /// `where`: the key or the list that `from` stands behind or in.
  YamlNode read(const YAML::Node& from, const Location& where, std::size_t depth = 0) {
    YamlNode node;
    node.where = locate(start_, from.Mark());
    if (depth > max_depth) reject("{}: nested more than {} deep", to_string(node.where), max_depth);
    if (from.IsNull()) return node;
    if (!seen_.emplace(from.Mark().pos, from.Type()).second) {  // the node has the place of what it stands for
      node.where = where;
      return refuse(std::move(node), "aliases (*name) are not part of a configuration; write the value out");
    }
    if (const std::string& tag = from.Tag(); !tag.empty() && tag != "?" && tag != "!")
      return refuse(std::move(node), fmt::format("tags ({}) are not part of a configuration", tag));
    if (from.IsScalar()) {
      node.kind = YamlNode::Kind::scalar;
      node.text = from.Scalar();
      node.quoted = from.Tag() == "!";
    } else if (from.IsSequence()) {
      node.kind = YamlNode::Kind::list;
      for (const YAML::Node& item : from) node.items.push_back(read(item, node.where, depth + 1));
    } else {
      node.kind = YamlNode::Kind::map;
      for (const auto& entry : from) add_entry(node, entry.first, entry.second, depth);
    }
    return node;
  }

 private:
  YamlNode refuse(YamlNode node, const std::string& message) {
    problems_.add(node.where, message);
    node.kind = YamlNode::Kind::invalid;
    return node;
  }

  void add_entry(YamlNode& map, const YAML::Node& key, const YAML::Node& value, std::size_t depth) {
    const Location where = locate(start_, key.Mark());
    if (!key.IsScalar()) {
      problems_.add(where, fmt::format("expected a name as key, got {}", describe(read(key, where, depth + 1))));
    } else if (const YamlEntry* const first = map.find(key.Scalar())) {
      problems_.add(where, fmt::format("the key \"{}\" stands in line {} already", key.Scalar(), first->where.line));
    } else {
      map.entries.push_back({key.Scalar(), where, read(value, where, depth + 1)});
    }
  }

  const Location& start_;
  Problems& problems_;
  std::set<std::pair<int, YAML::NodeType::value>> seen_;  // what an alias names is met again
};

/// `text` in quotes, if it is UTF-8.
std::optional<std::string> in_strict_quotes(std::string_view text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::type_error&) {
    return {};
  }
}

/// Bytes that are no UTF-8 stay as they are: a path may have them.
std::string in_quotes(std::string_view text) {
  if (const auto whole = in_strict_quotes(text)) return *whole;
  std::string quoted = "\"";
  while (!text.empty()) {
    std::size_t length = 1;  // of a character
    std::optional<std::string> one;
    while (!(one = in_strict_quotes(text.substr(0, length))) && length < 4) ++length;
    quoted += one ? one->substr(1, one->size() - 2) : std::string(1, text.front());
    text.remove_prefix(one ? std::min(length, text.size()) : 1);
  }
  return quoted + '"';
}

/// Whether some reader of YAML takes the text for something else: a number in any notation, a time, a truth value.
bool reads_as_other(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
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

/// Refuses a second document. yaml-cpp makes documents without end of a text that it cannot go on in.
class OneDocument final : public YAML::EventHandler {
 public:
  explicit OneDocument(const Location& start) : start_(start) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (begin_ == mark.pos) reject("{}: this is no YAML: unexpected character", to_string(locate(start_, mark)));
    if (begin_ >= 0) reject("{}: expected one document, got another after `---`", to_string(locate(start_, mark)));
    begin_ = mark.pos;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

 private:
  Location start_;
  int begin_ = -1;
};

void expect_one_document(const std::string& text, const Location& start) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  OneDocument document(start);
  while (parser.HandleNextDocument(document)) {
  }
}

}  // namespace

std::string to_string(const Location& where) {
  return where.line == 0 ? where.source : fmt::format("{}:{}:{}", where.source, where.line, where.column);
}

void Problems::add(const Location& where, std::string_view message) {
  messages_.push_back(fmt::format("{}: {}", to_string(where), message));
}

void Problems::add_unknown(const Location& where, std::string_view what, std::string_view name,
                           const std::vector<std::string>& known) {
  const std::string near = nearest_name(name, known);
  add(where, near.empty() ? fmt::format("unknown {} \"{}\"; known are {}", what, name, fmt::join(known, ", "))
                          : fmt::format("unknown {} \"{}\", did you mean \"{}\"?", what, name, near));
}

void Problems::add_expected(const YamlNode& node, std::string_view key, std::string_view what) {
  if (node.kind != YamlNode::Kind::invalid)
    add(node.where, fmt::format("{}: expected {}, got {}", key, what, describe(node)));
}

void Problems::refuse_if_any() const {
  if (!messages_.empty()) reject("{}", fmt::join(messages_, "\n"));
}

const YamlEntry* YamlNode::find(std::string_view key) const {
  const auto found = std::ranges::find(entries, key, &YamlEntry::key);
  return found == entries.end() ? nullptr : &*found;
}

const std::vector<YamlNode>& items_of(const YamlNode& node, std::string_view key, std::string_view wanted,
                                      Problems& problems) {
  if (node.kind != YamlNode::Kind::list)
    problems.add_expected(node, key, wanted);
  else if (node.items.empty())
    problems.add(node.where, fmt::format("{}: expected {}, got an empty one", key, wanted));
  return node.items;
}

Location place_of(const YamlNode& root, std::string_view section, std::string_view key) {
  const YamlEntry* const found = root.find(section);
  if (found == nullptr) return root.where;
  const YamlEntry* const entry = found->value.find(key);
  return entry == nullptr ? found->where : entry->where;
}

std::optional<double> number_in(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::scalar || node.quoted || node.text.empty()) return {};
  const char* const begin = node.text.data() + (node.text.front() == '+' ? 1 : 0);
  const char* const end = node.text.data() + node.text.size();
  double value = 0;
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (error != std::errc{} || stop != end || !std::isfinite(value)) return {};
  return value;
}

std::optional<bool> flag_in(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::scalar || node.quoted || (node.text != "true" && node.text != "false")) return {};
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

std::string to_yaml(const YamlNode& node) {
  std::vector<std::string> parts;
  switch (node.kind) {
    case YamlNode::Kind::scalar:
      // A negative number begins as an item of a list does.
      return !node.quoted && is_plain(node.text) ? node.text : in_quotes(node.text);
    case YamlNode::Kind::list:
      for (const YamlNode& item : node.items) parts.push_back(to_yaml(item));
      return fmt::format("[{}]", fmt::join(parts, ", "));
    case YamlNode::Kind::map:
      for (const YamlEntry& entry : node.entries)
        parts.push_back(fmt::format("{}: {}", to_yaml(std::string_view(entry.key)), to_yaml(entry.value)));
      return fmt::format("{{{}}}", fmt::join(parts, ", "));
    default:
      return {};
  }
}

std::string describe(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::scalar:
      return (node.quoted ? "the text `" : "`") + node.text + '`';
    case YamlNode::Kind::list:
      return "a list";
    case YamlNode::Kind::map:
      return "a section";
    default:
      return "nothing";
  }
}

YamlNode parse_yaml(const std::string& text, const Location& start, Problems& problems) {
  YAML::Node document;
  try {
    expect_one_document(text, start);
    document = YAML::Load(text);
  } catch (const YAML::DeepRecursion&) {
    reject("{}: nested more than {} deep", to_string(start), max_depth);
  } catch (const YAML::Exception& error) {
    reject("{}: this is no YAML: {}", to_string(locate(start, error.mark)), error.msg);
  }
  YamlNode root = TreeReader(start, problems).read(document, start);
  if (root.kind == YamlNode::Kind::null) {
    root.kind = YamlNode::Kind::map;
    root.where = start;
  }
  return root;
}

std::string read_text(const std::filesystem::path& path) {
  std::error_code failed;
  if (std::filesystem::is_directory(path, failed)) reject("{}: expected a file, got a folder", path.string());
  const bool standard_input = path == "-";
  if (!standard_input && !std::filesystem::exists(path, failed)) reject("{}: there is no such file", path.string());
  std::ifstream stream(standard_input ? "/dev/stdin" : path, std::ios::binary);
  std::string text(max_file_bytes + 1, '\0');  // a pipe does not say how long it is
  stream.read(text.data(), std::ssize(text));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (!stream.eof() && text.size() <= max_file_bytes) reject("{}: cannot be read", path.string());
  if (text.size() > max_file_bytes)
    reject("{}: more than a configuration can have ({} bytes)", path.string(), max_file_bytes);
  return text;
}

std::optional<YamlEntry> parse_assignment(std::string_view assignment, Problems& problems) {
  const Location here{"command line", 0, 0};
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    problems.add(here, fmt::format("expected key=value, got `{}`", assignment));
    return {};
  }
  const std::string text(assignment.substr(equals + 1));
  const std::string key(assignment.substr(0, equals));
  YamlEntry entry{key, here, {}};
  try {
    entry.value = parse_yaml(text, here, problems);
  } catch (const Error& error) {
    reject("{} (`{}`): the shell needs quotes around an argument with spaces, YAML around a text that begins with *",
           error.what(), assignment);
  }
  if (text.empty()) entry.value.kind = YamlNode::Kind::null;
  return entry;
}

bool sets(std::string_view assignment, std::string_view section, std::string_view key) {
  Problems reported_later;
  const std::optional<YamlEntry> given = parse_assignment(assignment, reported_later);
  return given && (given->key == fmt::format("{}.{}", section, key) ||
                   (given->key == section && given->value.find(key) != nullptr));
}

void apply_override(YamlNode& root, std::string_view assignment, Problems& problems) {
  std::optional<YamlEntry> given = parse_assignment(assignment, problems);
  if (!given) return;
  const Location& here = given->where;
  if (given->value.kind == YamlNode::Kind::null) {
    problems.add(here, fmt::format("{}: expected a value behind `=`", assignment));
    return;
  }
  std::string_view path = given->key;
  YamlNode* parent = &root;
  for (std::size_t dot; (dot = path.find('.')) != std::string_view::npos; path.remove_prefix(dot + 1)) {
    parent = &entry_at(*parent, path.substr(0, dot), here).value;
    if (parent->kind == YamlNode::Kind::null) parent->kind = YamlNode::Kind::map;
    if (parent->kind != YamlNode::Kind::map) {
      problems.add(
          here, fmt::format("\"{}\" cannot be set: \"{}\" is {}", given->key, path.substr(0, dot), describe(*parent)));
      return;
    }
  }
  YamlEntry& entry = entry_at(*parent, path, here);
  entry.where = here;
  entry.value = std::move(given->value);
}

}  // namespace lacuna::apps
