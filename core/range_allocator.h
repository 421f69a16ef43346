// An allocator over one range of addresses, whatever memory is behind it.
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

/// One range of addresses, best fit, neighbours joined: any tensor can use what another left, so that the memory taken
/// from the system stays close to the ledger's peak.
///
/// `Memory` has
///   static constexpr std::size_t alignment;      of blocks
///   std::int64_t capacity() const;              bytes that blocks may take
///   void reserve(std::size_t asked);            the range; `asked`: of the first allocation, for messages
///   std::byte* base() const;                    null before `reserve`
///   std::size_t size() const;                   addresses of the range
///   bool commit(std::size_t begin, std::size_t end, std::size_t asked);
///                                               makes these usable; false: free blocks have to be given back first,
///                                               and a part may be usable
///   void decommit(std::size_t begin, std::size_t end) noexcept;
///   std::int64_t available(std::size_t top) const;
///                                               as Allocator::available; blocks lie below `top`
///   [[noreturn]] void exhausted(std::size_t asked, std::int64_t capacity) const;
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
    expect(pool_.empty() && !in_pool_, "a device has one pool of memory at a time");
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
  /// Takes a block from the free memory, or from above it.
  std::size_t take_free(std::size_t size, std::size_t bytes) {
    if (static_cast<std::int64_t>(used_ + size) > capacity()) memory_.exhausted(bytes, capacity());
    // The pool's blocks may become free for all, too.
    free_.prepare(used_blocks_ + pool_used_blocks_ + pool_free_.by_offset().size() + 1);
    if (const auto [offset, block] = free_.best_fit(size); block != 0) {
      commit(offset, offset + size, bytes);
      free_.remove(offset);
      if (block > size) free_.insert(offset + size, block - size);
      take(size);
      return offset;
    }
    std::size_t offset = top_;
    if (const auto [last, block] = free_.last(); block != 0 && last + block == top_) offset = last;  // it can grow
    if (size > memory_.size() - offset)
      memory_.exhausted(bytes, std::min(capacity(), static_cast<std::int64_t>(memory_.size())));
    commit(offset, offset + size, bytes);
    if (offset < top_) free_.remove(offset);
    top_ = offset + size;
    take(size);
    if (static_cast<std::int64_t>(top_) > capacity()) decommit_free_blocks();  // free and used blocks exceed it
    return offset;
  }
  void* take_from_pool(std::size_t size, std::size_t bytes) {
    pool_free_.prepare(pool_used_blocks_ + 1);
    auto [offset, block] = pool_free_.best_fit(size);
    if (block == 0) {
      offset = take_free(size, bytes);
      --used_blocks_;
      pool_.emplace(offset, size);
    } else {
      commit(offset, offset + size, bytes);
      pool_free_.remove(offset);
      if (block > size) pool_free_.insert(offset + size, block - size);
    }
    ++pool_used_blocks_;
    return memory_.base() + offset;
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
    memory_.decommit(begin, end);  // the part that it got, which no block knows
    memory_.exhausted(asked, capacity());
  }
  void decommit_free_blocks() noexcept {
    for (const auto& [offset, size] : free_.by_offset()) memory_.decommit(offset, offset + size);
  }
  void take(std::size_t size) {
    used_ += size;
    ++used_blocks_;
  }

  mutable std::mutex mutex_;
  Memory memory_;
  std::size_t top_ = 0;                     // blocks, used or free, lie below it
  std::size_t used_ = 0, used_blocks_ = 0;  // bytes and number of the used blocks
  FreeBlocks free_;

  bool in_pool_ = false;
  std::map<std::size_t, std::size_t> pool_;  // offset to size of what it took
  std::size_t pool_used_blocks_ = 0;         // not among the used blocks
  FreeBlocks pool_free_;
};

}  // namespace lacuna
