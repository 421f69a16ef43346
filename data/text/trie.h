// Longest-prefix match over a vocabulary.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace lacuna {

/// A trie that maps byte strings to ids. All edges are in one hash table.
class Trie {
 public:
  Trie() : ids_(1, none), table_(1024) {}

  bool empty() const { return ids_.size() == 1; }
  void insert(std::string_view key, std::int32_t id);
  /// The id and length of the longest key that is a prefix of `text`; {-1, 0} if there is none.
  std::pair<std::int32_t, std::size_t> longest(std::string_view text) const;
  /// Calls `f(id, length)` for each key that is a prefix of `text`, the shortest first.
  template <class F>
  void each_prefix(std::string_view text, F&& f) const {
    std::uint32_t node = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const Edge* const edge = find(edge_key(node, text[i]));
      if (edge == nullptr) return;
      node = edge->child;
      if (ids_[node] != none) f(ids_[node], i + 1);
    }
  }

 private:
  static constexpr std::int32_t none = -1;
  struct Edge {
    std::uint64_t key = 0;  // node · 256 + byte + 1; 0: free
    std::uint32_t child = 0;
  };
  static std::uint64_t edge_key(std::uint64_t node, char byte) {
    return node * 256 + static_cast<unsigned char>(byte) + 1;
  }
  std::size_t place_of(std::uint64_t key) const {
    std::size_t place = (key * 0x9e3779b97f4a7c15U) >> 20U;
    for (place &= table_.size() - 1; table_[place].key != 0 && table_[place].key != key;)
      place = (place + 1) & (table_.size() - 1);
    return place;
  }
  const Edge* find(std::uint64_t key) const {
    const Edge& edge = table_[place_of(key)];
    return edge.key == key ? &edge : nullptr;
  }
  void grow();

  std::vector<std::int32_t> ids_;  // [nodes]: id of the key that ends there
  std::vector<Edge> table_;        // open addressing; the size is a power of two
};

}  // namespace lacuna
