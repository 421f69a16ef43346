#include "core/yaml.h"

#include "core/error.h"

#include <fmt/format.h>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <set>
#include <sstream>
#include <utility>

namespace lacuna {
namespace {

constexpr std::size_t max_depth = 16;

Location locate(const Location& start, const YAML::Mark& mark) {
  return start.line == 0 ? start : Location{start.source, start.line + mark.line, mark.column + 1};
}

/// Copies the parser's tree with places and quotes; refuses repeated keys.
class TreeReader {
 public:
  TreeReader(const Location& start, Problems& problems) : start_(start), problems_(problems) {}

  /// `where`: the place of the key or list around `from`.
  Tree read(const YAML::Node& from, const Location& where, std::size_t depth = 0) {
    Tree node;
    node.where = locate(start_, from.Mark());
    if (depth > max_depth) reject("{}: nested more than {} deep", to_string(node.where), max_depth);
    if (from.IsNull()) return node;
    if (!seen_.emplace(from.Mark().pos, from.Type()).second) {  // the node has the place of what it stands for
      node.where = where;
      return refuse(std::move(node), "aliases (*name) are not read; write the value out");
    }
    if (const std::string& tag = from.Tag(); !tag.empty() && tag != "?" && tag != "!")
      return refuse(std::move(node), fmt::format("tags ({}) are not read", tag));
    if (from.IsScalar()) {
      node.kind = Tree::Kind::scalar;
      node.text = from.Scalar();
      node.quoted = from.Tag() == "!";
    } else if (from.IsSequence()) {
      node.kind = Tree::Kind::list;
      for (const YAML::Node& item : from) node.items.push_back(read(item, node.where, depth + 1));
    } else {
      node.kind = Tree::Kind::map;
      for (const auto& entry : from) add_entry(node, entry.first, entry.second, depth);
    }
    return node;
  }

 private:
  Tree refuse(Tree node, const std::string& message) {
    problems_.add(node.where, message);
    node.kind = Tree::Kind::invalid;
    return node;
  }

  void add_entry(Tree& map, const YAML::Node& key, const YAML::Node& value, std::size_t depth) {
    const Location where = locate(start_, key.Mark());
    if (!key.IsScalar()) {
      problems_.add(where, fmt::format("expected a name as key, got {}", describe(read(key, where, depth + 1))));
    } else if (const TreeEntry* const first = map.find(key.Scalar())) {
      problems_.add(where, fmt::format("the key \"{}\" stands in line {} already", key.Scalar(), first->where.line));
    } else {
      map.entries.push_back({key.Scalar(), where, read(value, where, depth + 1)});
    }
  }

  const Location& start_;
  Problems& problems_;
  std::set<std::pair<int, YAML::NodeType::value>> seen_;  // what an alias names is met again
};

/// Refuses a second document. yaml-cpp yields endless documents from text that it cannot parse.
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

Tree parse_yaml(const std::string& text, const Location& start, Problems& problems) {
  YAML::Node document;
  try {
    expect_one_document(text, start);
    document = YAML::Load(text);
  } catch (const YAML::DeepRecursion&) {
    reject("{}: nested more than {} deep", to_string(start), max_depth);
  } catch (const YAML::Exception& error) {
    reject("{}: this is no YAML: {}{}", to_string(locate(start, error.mark)), error.msg,
           text.find('\t') == std::string::npos ? "" : "; it has tabs, and YAML is indented by spaces");
  }
  Tree root = TreeReader(start, problems).read(document, start);
  if (root.kind == Tree::Kind::null) {
    root.kind = Tree::Kind::map;
    root.where = start;
  }
  return root;
}

}  // namespace lacuna
