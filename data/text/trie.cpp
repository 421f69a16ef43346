#include "data/text/trie.h"

namespace lacuna {

void Trie::grow() {
  std::vector<Edge> before(table_.size() * 2);
  before.swap(table_);
  for (const Edge& edge : before)
    if (edge.key != 0) table_[place_of(edge.key)] = edge;
}

void Trie::insert(std::string_view key, std::int32_t id) {
  std::uint32_t node = 0;
  for (const char byte : key) {
    const std::uint64_t edge = edge_key(node, byte);
    if (const Edge* const found = find(edge)) {
      node = found->child;
      continue;
    }
    if (ids_.size() * 2 > table_.size()) grow();
    node = static_cast<std::uint32_t>(ids_.size());
    table_[place_of(edge)] = {edge, node};
    ids_.push_back(none);
  }
  ids_[node] = id;
}

std::pair<std::int32_t, std::size_t> Trie::longest(std::string_view text) const {
  std::pair<std::int32_t, std::size_t> best{none, 0};
  each_prefix(text, [&](std::int32_t id, std::size_t length) { best = {id, length}; });
  return best;
}

}  // namespace lacuna
