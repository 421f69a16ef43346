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

 private:
  static constexpr std::int32_t none = -1;
  struct Edge {
    std::uint64_t key = 0;  // node · 256 + byte + 1; 0: free
    std::uint32_t child = 0;
  };
  const Edge* find(std::uint64_t key) const;
  std::size_t place_of(std::uint64_t key) const;
  void grow();

  std::vector<std::int32_t> ids_;  // [nodes]: id of the key that ends there
  std::vector<Edge> table_;        // open addressing; the size is a power of two
};

}  // namespace lacuna
