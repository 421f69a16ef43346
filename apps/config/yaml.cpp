#include "apps/config/yaml.h"

#include "core/error.h"

#include <algorithm>
#include <fstream>

namespace lacuna::apps {
namespace {

constexpr std::size_t max_file_bytes = 1 << 20;

}  // namespace

const std::vector<Tree>& items_of(const Tree& node, std::string_view key, std::string_view wanted, Problems& problems) {
  if (node.kind != Tree::Kind::list)
    problems.add_expected(node, key, wanted);
  else if (node.items.empty())
    problems.add(node.where, fmt::format("{}: expected {}, got an empty one", key, wanted));
  return node.items;
}

Location place_of(const Tree& root, std::string_view section, std::string_view key) {
  const TreeEntry* const found = root.find(section);
  if (found == nullptr) return root.where;
  if (const TreeEntry* const entry = found->value.find(key)) return entry->where;
  // A section that a key of the command line changes is no longer the file's.
  for (const TreeEntry& entry : found->value.entries)
    if (entry.where.line == 0) return entry.where;
  return found->where;
}

const Tree* value_of(const Tree& root, std::string_view section, std::string_view key) {
  const TreeEntry* const found = root.find(section);
  const TreeEntry* const entry = found == nullptr ? nullptr : found->value.find(key);
  return entry == nullptr ? nullptr : &entry->value;
}

Tree read_yaml(const std::filesystem::path& path) {
  Problems problems;
  Tree tree = parse_yaml(read_text(path), {path.string(), 1, 1}, problems);
  problems.refuse_if_any();
  return tree;
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

}  // namespace lacuna::apps
