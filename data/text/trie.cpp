#include "data/text/trie.h"

namespace lacuna {
namespace {

std::uint64_t edge_key(std::uint64_t node, char byte) { return node * 256 + static_cast<unsigned char>(byte) + 1; }

}  // namespace

std::size_t Trie::place_of(std::uint64_t key) const {
  std::size_t place = (key * 0x9e3779b97f4a7c15U) >> 20U;
  for (place &= table_.size() - 1; table_[place].key != 0 && table_[place].key != key;)
    place = (place + 1) & (table_.size() - 1);
  return place;
}

const Trie::Edge* Trie::find(std::uint64_t key) const {
  const Edge& edge = table_[place_of(key)];
  return edge.key == key ? &edge : nullptr;
}

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
  std::uint32_t node = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const Edge* const edge = find(edge_key(node, text[i]));
    if (edge == nullptr) break;
    node = edge->child;
    if (ids_[node] != none) best = {ids_[node], i + 1};
  }
  return best;
}

}  // namespace lacuna
