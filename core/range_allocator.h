// An allocator over one range of addresses, whatever memory is behind it.
#pragma once

#include "core/allocator.h"
#include "core/free_blocks.h"

#include <algorithm>
#include <cstdint>
#include <mutex>

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
    if (static_cast<std::int64_t>(used_ + size) > capacity()) memory_.exhausted(bytes, capacity());
    free_.prepare(used_blocks_ + 1);
    if (const auto [offset, block] = free_.best_fit(size); block != 0) {
      commit(offset, offset + size, bytes);
      free_.remove(offset);
      if (block > size) free_.insert(offset + size, block - size);
      take(size);
      return memory_.base() + offset;
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
    return memory_.base() + offset;
  }

  void release(void* memory, std::size_t bytes) noexcept override {
    if (memory == nullptr) return;
    const std::lock_guard lock(mutex_);
    const std::size_t size = rounded(bytes);
    used_ -= size;
    --used_blocks_;
    free_.insert_joined(static_cast<std::size_t>(static_cast<std::byte*>(memory) - memory_.base()), size);
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
};

}  // namespace lacuna
