// The free blocks of a range of addresses, by size and by place.
#pragma once

#include <cstddef>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace lacuna {

/// Free blocks, indexed by size and by offset. Releasing a block must not fail, so the nodes of both indices are
/// allocated when blocks are handed out.
class FreeBlocks {
 public:
  struct Block {
    std::size_t offset = 0, size = 0;  // size 0: no block
  };

  /// Allocates nodes for `used_blocks` blocks to become free. On std::bad_alloc nothing has changed.
  void prepare(std::size_t used_blocks) {
    // `remove` returns nodes to this list, so it also needs room for those of all free blocks.
    const std::size_t nodes = std::max(size_nodes_.size(), used_blocks) + by_offset_.size();
    if (size_nodes_.capacity() < nodes) {
      offset_nodes_.reserve(2 * nodes);
      size_nodes_.reserve(2 * nodes);
    }
    while (size_nodes_.size() < used_blocks) {
      std::map<std::size_t, std::size_t> offset{{0, 0}};
      std::set<std::pair<std::size_t, std::size_t> > size{{0, 0}};
      offset_nodes_.push_back(offset.extract(offset.begin()));
      size_nodes_.push_back(size.extract(size.begin()));
    }
  }

  /// The smallest block of at least `size` bytes; of equal ones the first.
  Block best_fit(std::size_t size) const {
    const auto fit = by_size_.lower_bound({size, 0});
    return fit == by_size_.end() ? Block{} : Block{fit->second, fit->first};
  }
  Block last() const {
    return by_offset_.empty() ? Block{} : Block{by_offset_.rbegin()->first, by_offset_.rbegin()->second};
  }
  const std::map<std::size_t, std::size_t>& by_offset() const { return by_offset_; }

  void insert(std::size_t offset, std::size_t size) noexcept {
    auto offset_node = take_last(offset_nodes_);
    offset_node.key() = offset;
    offset_node.mapped() = size;
    by_offset_.insert(std::move(offset_node));
    auto size_node = take_last(size_nodes_);
    size_node.value() = {size, offset};
    by_size_.insert(std::move(size_node));
  }
  /// Inserts a block and joins it with adjacent free blocks.
  void insert_joined(std::size_t offset, std::size_t size) noexcept {
    if (const auto after = by_offset_.find(offset + size); after != by_offset_.end()) {
      size += after->second;
      remove(after->first);
    }
    if (const auto next = by_offset_.lower_bound(offset); next != by_offset_.begin()) {
      const auto [before, block] = *std::prev(next);
      if (before + block == offset) {
        remove(before);
        offset = before;
        size += block;
      }
    }
    insert(offset, size);
  }
  void remove(std::size_t offset) noexcept {
    auto offset_node = by_offset_.extract(offset);
    size_nodes_.push_back(by_size_.extract({offset_node.mapped(), offset}));
    offset_nodes_.push_back(std::move(offset_node));
  }

 private:
  template <class Node>
  static Node take_last(std::vector<Node>& nodes) noexcept {
    Node node = std::move(nodes.back());
    nodes.pop_back();
    return node;
  }

  std::map<std::size_t, std::size_t> by_offset_;            // offset to size
  std::set<std::pair<std::size_t, std::size_t> > by_size_;  // (size, offset)
  std::vector<decltype(by_offset_)::node_type> offset_nodes_;
  std::vector<decltype(by_size_)::node_type> size_nodes_;
};

}  // namespace lacuna
