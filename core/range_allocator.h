// An allocator over one range of addresses, for any kind of memory.
#pragma once

#include "core/allocator.h"
#include "core/free_blocks.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

namespace lacuna {

/// A best-fit allocator over one range of addresses. Adjacent free blocks are joined, so any tensor can reuse freed
/// memory, and the memory taken from the system stays close to the ledger's peak.
///
// clang-format off
/// `Memory` has
///   static constexpr std::size_t alignment;        of blocks
///   std::int64_t capacity() const;                 maximum bytes in blocks
///   void reserve(std::size_t asked);               reserves the range; `asked`: bytes of the first allocation, for messages
///   std::byte* base() const;                       null before `reserve`
///   std::size_t size() const;                      bytes of the range
///   bool commit(std::size_t begin, std::size_t end, std::size_t asked);
///                                                  maps memory to [begin, end); false: free blocks must be returned
///                                                  first, and a part may be mapped
///   void decommit(std::size_t begin, std::size_t end) noexcept;
///   std::int64_t available(std::size_t top) const; see Allocator::available; blocks lie below `top`
///   [[noreturn]] void exhausted(std::size_t asked, std::int64_t capacity) const;
// clang-format on
template <class Memory>
class RangeAllocator final : public Allocator {
 public:
  template <class... Args>
  explicit RangeAllocator(Args&&... args) : memory_(std::forward<Args>(args)...) {}

  void* allocate(std::size_t bytes) override {
    if (bytes == 0) return nullptr;
    const std::size_t size = rounded(bytes);
    const std::lock_guard lock(mutex_);
    if (memory_.base() == nullptr) memory_.reserve(bytes);
    if (in_pool_) return take_from_pool(size, bytes);
    return memory_.base() + take_free(size, bytes);
  }

  void release(void* memory, std::size_t bytes) noexcept override {
    if (memory == nullptr) return;
    const std::lock_guard lock(mutex_);
    const std::size_t size = rounded(bytes), offset = offset_of(memory);
    if (is_in_pool(offset)) {
      --pool_used_blocks_;
      return pool_free_.insert_joined(offset, size);
    }
    used_ -= size;
    --used_blocks_;
    free_.insert_joined(offset, size);
  }

  void begin_pool() override {
    const std::lock_guard lock(mutex_);
    expect(!in_pool_, "a pool of memory is open already");
    in_pool_ = true;
  }
  void end_pool() override {
    const std::lock_guard lock(mutex_);
    in_pool_ = false;
  }
  void free_pool() noexcept override {
    const std::lock_guard lock(mutex_);
    in_pool_ = false;
    pool_.clear();
    used_blocks_ += std::exchange(pool_used_blocks_, 0);
    while (!pool_free_.by_offset().empty()) {
      const auto [offset, size] = *pool_free_.by_offset().begin();
      pool_free_.remove(offset);
      used_ -= size;
      free_.insert_joined(offset, size);
    }
  }
  std::int64_t pool_bytes() const override {
    const std::lock_guard lock(mutex_);
    std::size_t bytes = 0;
    for (const auto& [offset, size] : pool_free_.by_offset()) bytes += size;
    return static_cast<std::int64_t>(bytes);
  }

  std::int64_t capacity() const override { return memory_.capacity(); }
  std::int64_t available() const override {
    const std::lock_guard lock(mutex_);
    return memory_.available(top_);
  }
  void trim() override {
    const std::lock_guard lock(mutex_);
    decommit_free_blocks();
  }

 private:
  /// Takes a block from a free block or from above the top.
  std::size_t take_free(std::size_t size, std::size_t asked) {
    if (static_cast<std::int64_t>(used_ + size) > capacity()) memory_.exhausted(asked, capacity());
    auto [offset, block] = free_.best_fit(size);
    if (block == 0) {
      offset = top_;
      if (const auto [last, left] = free_.last(); left != 0 && last + left == top_) offset = last;  // it can grow
      if (size > memory_.size() - offset)
        memory_.exhausted(asked, std::min(capacity(), static_cast<std::int64_t>(memory_.size())));
    }
    take_at(offset, size, asked);
    return offset;
  }
  /// Takes [offset, offset + size), which starts at a free block or at the top and may extend beyond the top.
  void take_at(std::size_t offset, std::size_t size, std::size_t asked) {
    // The pool's blocks may join the free blocks too (free_pool).
    free_.prepare(used_blocks_ + pool_used_blocks_ + pool_free_.by_offset().size() + 1);
    commit(offset, offset + size, asked);
    if (const auto found = free_.by_offset().find(offset); found != free_.by_offset().end()) {
      const std::size_t block = found->second;
      free_.remove(offset);
      if (block > size) free_.insert(offset + size, block - size);
    }
    used_ += size;
    ++used_blocks_;
    if (offset + size <= top_) return;
    top_ = offset + size;
    // Free and used blocks together must not exceed the capacity.
    if (static_cast<std::int64_t>(top_) > capacity()) decommit_free_blocks();
  }

  void* take_from_pool(std::size_t size, std::size_t asked) {
    pool_free_.prepare(pool_used_blocks_ + 1);
    FreeBlocks::Block found = pool_free_.best_fit(size);
    if (found.size == 0) found = extended(size, asked);
    if (found.size == 0) {
      found = {take_free(size, asked), 0};
      --used_blocks_;
      pool_.emplace(found.offset, size);
    } else {
      commit(found.offset, found.offset + size, asked);
      pool_free_.remove(found.offset);
      if (found.size > size) pool_free_.insert(found.offset + size, found.size - size);
    }
    ++pool_used_blocks_;
    return memory_.base() + found.offset;
  }
  /// The largest free block of the pool that adjacent free memory behind it extends to `size`, with that memory. Size 0
  /// if there is none.
  FreeBlocks::Block extended(std::size_t size, std::size_t asked) {
    FreeBlocks::Block best;
    for (const auto& [offset, block] : pool_free_.by_offset()) {
      std::size_t end = offset + block;
      if (const auto behind = free_.by_offset().find(end); behind != free_.by_offset().end()) end += behind->second;
      if (end == top_) end = memory_.size();
      if (block > best.size && end - offset >= size) best = {offset, block};
    }
    const std::size_t end = best.offset + best.size, more = size - best.size;
    if (best.size == 0 || static_cast<std::int64_t>(used_ + more) > capacity()) return {};
    take_at(end, more, asked);
    --used_blocks_;
    pool_.emplace(end, more);
    pool_free_.remove(best.offset);
    pool_free_.insert(best.offset, size);
    return {best.offset, size};
  }
  bool is_in_pool(std::size_t offset) const {
    const auto after = pool_.upper_bound(offset);
    return after != pool_.begin() && offset < std::prev(after)->first + std::prev(after)->second;
  }
  std::size_t offset_of(const void* memory) const {
    return static_cast<std::size_t>(static_cast<const std::byte*>(memory) - memory_.base());
  }
  static std::size_t rounded(std::size_t bytes) {
    return (bytes + Memory::alignment - 1) / Memory::alignment * Memory::alignment;
  }
  void commit(std::size_t begin, std::size_t end, std::size_t asked) {
    if (memory_.commit(begin, end, asked)) return;
    decommit_free_blocks();
    if (memory_.commit(begin, end, asked)) return;
    memory_.decommit(begin, end);  // the part that was mapped, which belongs to no block
    memory_.exhausted(asked, capacity());
  }
  void decommit_free_blocks() noexcept {
    for (const auto& [offset, size] : free_.by_offset()) memory_.decommit(offset, offset + size);
  }

  mutable std::mutex mutex_;
  Memory memory_;
  std::size_t top_ = 0;                     // all blocks, used or free, lie below it
  std::size_t used_ = 0, used_blocks_ = 0;  // bytes and number of the used blocks
  FreeBlocks free_;

  bool in_pool_ = false;
  std::map<std::size_t, std::size_t> pool_;  // offset to size of the ranges that the pool took
  std::size_t pool_used_blocks_ = 0;         // not among the used blocks
  FreeBlocks pool_free_;
};

}  // namespace lacuna
