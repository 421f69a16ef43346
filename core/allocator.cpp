#include "core/allocator.h"

#include "core/error.h"
#include "core/ledger.h"
#include "core/parallel.h"
#include "core/sanitizer.h"
#include "core/system_memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace lacuna {
namespace {

std::size_t round_up(std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; }

[[noreturn]] void report_exhausted(std::size_t bytes, std::int64_t capacity) {
  throw_out_of_memory(static_cast<std::int64_t>(bytes),
                      fmt::format("by tensors, which may take {}", format_bytes(capacity)));
}

#ifdef LACUNA_ADDRESS_SANITIZER

// The address sanitizer knows the bounds of a block only if it comes from the system's allocator.
class CpuAllocator final : public Allocator {
 public:
  void* allocate(std::size_t bytes) override {
    if (bytes == 0) return nullptr;
    if (static_cast<std::int64_t>(bytes) > capacity_) report_exhausted(bytes, capacity_);
    void* memory = std::aligned_alloc(memory_alignment, round_up(bytes, memory_alignment));
    if (memory == nullptr) report_exhausted(bytes, capacity_);
    return memory;
  }
  void release(void* memory, std::size_t) noexcept override { std::free(memory); }
  std::int64_t capacity() const override { return capacity_; }
  std::int64_t available() const override { return std::min(capacity_, available_memory()); }

 private:
  std::int64_t capacity_ = physical_memory();
};

#else

constexpr std::size_t least_reserved = std::size_t{1} << 20;

/// Address space of a thread's stack, in bytes.
std::int64_t default_stack() {
  rlimit limit{};
  const bool limited = getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return limited ? static_cast<std::int64_t>(limit.rlim_cur) : std::int64_t{8} << 20;
}

/// The free blocks of a range of addresses. Releasing a block must not fail, so the nodes of both indices are allocated
/// beforehand, when blocks are handed out.
class FreeBlocks {
 public:
  struct Block {
    std::size_t offset = 0, size = 0;  // size 0: no block
  };

  /// Allocates nodes, so that `used_blocks` used blocks can become free. Throws std::bad_alloc and changes nothing.
  void prepare(std::size_t used_blocks) {
    // `remove` gives nodes back: there is room for those of all free blocks.
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

  /// The smallest block of at least `size` bytes, the first of equals.
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
  /// The same, joined with the free blocks beside it.
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

// One range of addresses, best fit, neighbours joined: any tensor can use what another left, so that the resident size
// stays close to the ledger's peak.
class CpuAllocator final : public Allocator {
 public:
  void* allocate(std::size_t bytes) override {
    if (bytes == 0) return nullptr;
    const std::size_t size = round_up(bytes, memory_alignment);
    const std::lock_guard lock(mutex_);
    if (base_ == nullptr) reserve(bytes);
    if (static_cast<std::int64_t>(used_ + size) > capacity_) report_exhausted(bytes, capacity_);
    free_.prepare(used_blocks_ + 1);
    if (const auto [offset, block] = free_.best_fit(size); block != 0) {
      free_.remove(offset);
      if (block > size) free_.insert(offset + size, block - size);
      take(size);
      return base_ + offset;
    }
    std::size_t offset = top_;
    if (const auto [last, block] = free_.last(); block != 0 && last + block == top_) offset = last;  // it can grow
    if (size > reserved_ - offset) report_exhausted(bytes, std::min(capacity_, static_cast<std::int64_t>(reserved_)));
    commit(offset + size, bytes);
    if (offset < top_) free_.remove(offset);
    top_ = offset + size;
    take(size);
    if (static_cast<std::int64_t>(top_) > capacity_) release_free_pages();  // free and used blocks exceed it
    return base_ + offset;
  }

  void release(void* memory, std::size_t bytes) noexcept override {
    if (memory == nullptr) return;
    const std::lock_guard lock(mutex_);
    const std::size_t size = round_up(bytes, memory_alignment);
    used_ -= size;
    --used_blocks_;
    free_.insert_joined(static_cast<std::size_t>(static_cast<std::byte*>(memory) - base_), size);
  }

  std::int64_t capacity() const override { return capacity_; }
  std::int64_t available() const override {
    const std::lock_guard lock(mutex_);
    const std::size_t addresses = base_ == nullptr ? reservable() : reserved_;
    const std::int64_t data = without_stacks_and_code(data_left());
    const std::int64_t memory = free_memory() + static_cast<std::int64_t>(top_) - growth_beside_tensors(threads());
    return std::min(
        {capacity_, std::max<std::int64_t>(memory, 0), static_cast<std::int64_t>(addresses),
         data + std::min(std::numeric_limits<std::int64_t>::max() - data, static_cast<std::int64_t>(committed_))});
  }

  void trim() override {
    const std::lock_guard lock(mutex_);
    release_free_pages();
  }

 private:
  void release_free_pages() {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    for (const auto& [offset, size] : free_.by_offset()) {
      const std::size_t begin = round_up(offset, page), end = (offset + size) / page * page;
      if (end > begin) madvise(base_ + begin, end - begin, MADV_DONTNEED);
    }
  }
  /// What is left of `bytes` behind the stacks of threads and the code that oneDNN generates: a failure there ends the
  /// process.
  static std::int64_t without_stacks_and_code(std::int64_t bytes) {
    constexpr int loading_threads = 2;  // the default number: for training and for evaluation
    constexpr std::int64_t generated_code = std::int64_t{48} << 20;
    return std::max<std::int64_t>(bytes - (threads() + loading_threads) * default_stack() - generated_code, 0);
  }
  /// Addresses to reserve: more than there is memory, since free blocks may lie between used ones. Under a limit on the
  /// address space an eighth is left for everything else.
  std::size_t reservable() const {
    const std::size_t wanted = 2 * static_cast<std::size_t>(capacity_);
    const std::int64_t left = address_space_left();
    if (left >= static_cast<std::int64_t>(wanted)) return wanted;
    return static_cast<std::size_t>(without_stacks_and_code(left - left / 8));
  }
  void reserve(std::size_t asked) {
    for (std::size_t size = reservable(); size >= least_reserved; size = size / 10 * 9) {
      void* range = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (range == MAP_FAILED) continue;
      constexpr std::size_t huge_page = std::size_t{2} << 20;
      auto* const begin = static_cast<std::byte*>(range);
      const std::size_t skipped =
          round_up(reinterpret_cast<std::uintptr_t>(begin), huge_page) - reinterpret_cast<std::uintptr_t>(begin);
      base_ = begin + skipped;
      reserved_ = size - skipped;
      madvise(base_, reserved_, MADV_HUGEPAGE);
      return;
    }
    throw OutOfMemory(
        static_cast<std::int64_t>(asked),
        fmt::format("out of memory: {} of the address space are left for tensors, the stacks of {} threads "
                    "and generated code: the limit on it (ulimit -v) is too low",
                    format_bytes(address_space_left()), threads()));
  }
  /// Makes the range usable up to `end`. Only then do limits on data (`ulimit -d`) and strict overcommit count it.
  void commit(std::size_t end, std::size_t asked) {
    constexpr std::size_t huge_page = std::size_t{2} << 20;
    if (end <= committed_) return;
    const std::size_t next = std::min(round_up(end, huge_page), reserved_);
    if (mprotect(base_ + committed_, next - committed_, PROT_READ | PROT_WRITE) != 0)
      throw_out_of_memory(static_cast<std::int64_t>(asked),
                          fmt::format("by tensors, which hold {} of the {} that the system grants this process "
                                      "(ulimit -d, vm.overcommit_memory)",
                                      format_bytes(static_cast<std::int64_t>(committed_)),
                                      format_bytes(static_cast<std::int64_t>(committed_) + data_left())));
    committed_ = next;
  }
  void take(std::size_t size) {
    used_ += size;
    ++used_blocks_;
  }

  mutable std::mutex mutex_;
  std::byte* base_ = nullptr;
  std::size_t reserved_ = 0, top_ = 0;      // addresses in all; blocks, used or free, lie below `top_`
  std::size_t committed_ = 0;               // addresses from `base_` that may be used
  std::size_t used_ = 0, used_blocks_ = 0;  // bytes and number of the used blocks
  FreeBlocks free_;
  std::int64_t capacity_ = physical_memory();
};

#endif

class MetaAllocator final : public Allocator {
 public:
  void* allocate(std::size_t) override { return nullptr; }
  void release(void*, std::size_t) noexcept override {}
  std::int64_t capacity() const override { return std::numeric_limits<std::int64_t>::max(); }
};

}  // namespace

void throw_out_of_memory(std::int64_t bytes, const std::string& by) {
  const Owner owner = AllocationScope::current();
  const Ledger& account = ledger(Device::cpu);
  const std::string asked = bytes > 0 ? format_bytes(bytes) : "memory";
  throw OutOfMemory(
      account.total() + bytes,
      fmt::format("out of memory: {} asked for {} in {}{}{}; tensors hold {}. The largest holders:\n{}"
                  "A smaller train.batch_size (with train.accumulate), train.precision: bf16, or another memory.policy "
                  "needs less; `lacuna plan` says how much.",
                  asked, by, owner.op.text().empty() ? "the program" : owner.op.text(),
                  owner.path.text().empty() ? "" : " of ", owner.path.text(), format_bytes(account.total()),
                  describe(account.holders(), 8)));
}

Allocator& allocator(Device device) {
  // Never destroyed, since tensors in static objects may be destroyed later.
  static auto* const cpu = new CpuAllocator;
  static auto* const meta = new MetaAllocator;
  if (device == Device::cpu) return *cpu;
  return *meta;
}

}  // namespace lacuna
