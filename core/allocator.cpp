#include "core/allocator.h"

#include "core/backend.h"
#include "core/error.h"
#include "core/ledger.h"
#include "core/parallel.h"
#include "core/range_allocator.h"
#include "core/sanitizer.h"
#include "core/system_memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace lacuna {
namespace {

std::size_t round_up(std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; }

[[noreturn]] void report_exhausted(Device device, std::size_t bytes, std::int64_t capacity) {
  throw_out_of_memory(static_cast<std::int64_t>(bytes),
                      fmt::format("by tensors, which may take {}", format_bytes(capacity)), device);
}

#ifdef LACUNA_ADDRESS_SANITIZER

// The allocator for builds with the address sanitizer, which knows a block's bounds only if the block comes from the
// system's allocator. Devices in such builds are stand-ins on the CPU.
class SystemAllocator final : public Allocator {
 public:
  explicit SystemAllocator(Device device) : device_(device) {}
  void* allocate(std::size_t bytes) override {
    if (bytes == 0) return nullptr;
    if (static_cast<std::int64_t>(bytes) > capacity_) report_exhausted(device_, bytes, capacity_);
    const std::lock_guard lock(mutex_);
    released_.reserve(released_.size() + pool_.size() + 1);
    void* memory = std::aligned_alloc(memory_alignment, round_up(bytes, memory_alignment));
    if (memory == nullptr) report_exhausted(device_, bytes, capacity_);
    if (in_pool_) pool_.emplace(memory, bytes);
    return memory;
  }
  void release(void* memory, std::size_t bytes) noexcept override {
    const bool is_done = work_is_done();
    const std::lock_guard lock(mutex_);
    if (!is_done) {
      released_.emplace_back(memory, bytes);
      return;
    }
    if (const auto found = pool_.find(memory); found != pool_.end()) {
      released_.push_back(*found);
      pool_.erase(found);
      return;
    }
    std::free(memory);
  }
  /// Here a pool never reuses a block.
  void begin_pool() override { in_pool_ = true; }
  void end_pool() override { in_pool_ = false; }
  void free_pool() noexcept override {
    const std::lock_guard lock(mutex_);
    in_pool_ = false;
    pool_.clear();
    for (const auto& [memory, bytes] : std::exchange(released_, {})) std::free(memory);
  }
  std::int64_t pool_bytes() const override {
    const std::lock_guard lock(mutex_);
    std::size_t total = 0;
    for (const auto& [memory, bytes] : released_) total += bytes;
    return static_cast<std::int64_t>(total);
  }
  std::int64_t capacity() const override { return capacity_; }
  std::int64_t available() const override { return std::min(capacity_, available_memory()); }

 private:
  /// Waits for the device's queued work, which may use a block that is being released: `free` runs at once, unlike the
  /// next owner's work. Returns false during a capture.
  bool work_is_done() const noexcept {
    try {
      synchronize(device_);
      return true;
    } catch (...) {
      return false;
    }
  }

  Device device_;
  std::int64_t capacity_ = physical_memory();
  mutable std::mutex mutex_;
  bool in_pool_ = false;
  std::map<void*, std::size_t> pool_;                      // used blocks and their bytes
  std::vector<std::pair<void*, std::size_t>> released_{};  // free blocks
};

Allocator* make_allocator(Device device) { return new SystemAllocator(device); }

#else

constexpr std::size_t least_reserved = std::size_t{1} << 20;

/// Default size of a thread's stack, in bytes of address space.
std::int64_t default_stack() {
  rlimit limit{};
  const bool limited = getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return limited ? static_cast<std::int64_t>(limit.rlim_cur) : std::int64_t{8} << 20;
}

/// Host memory: pages of this process.
class HostMemory {
 public:
  static constexpr std::size_t alignment = memory_alignment;
  std::int64_t capacity() const { return capacity_; }
  std::byte* base() const { return base_; }
  std::size_t size() const { return reserved_; }
  std::int64_t available(std::size_t top) const {
    const std::size_t addresses = base_ == nullptr ? reservable() : reserved_;
    const std::int64_t data = without_stacks_and_code(data_left());
    const std::int64_t memory = free_memory() + static_cast<std::int64_t>(top) - growth_beside_tensors(threads());
    return std::min(
        {capacity_, std::max<std::int64_t>(memory, 0), static_cast<std::int64_t>(addresses),
         data + std::min(std::numeric_limits<std::int64_t>::max() - data, static_cast<std::int64_t>(committed_))});
  }
  [[noreturn]] void exhausted(std::size_t asked, std::int64_t capacity) const {
    report_exhausted(Device::cpu, asked, capacity);
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
  /// Makes the range accessible up to `end`. Data limits (`ulimit -d`) and strict overcommit count it only from then
  /// on.
  bool commit(std::size_t, std::size_t end, std::size_t asked) {
    constexpr std::size_t huge_page = std::size_t{2} << 20;
    if (end <= committed_) return true;
    const std::size_t next = std::min(round_up(end, huge_page), reserved_);
    if (mprotect(base_ + committed_, next - committed_, PROT_READ | PROT_WRITE) != 0)
      throw_out_of_memory(static_cast<std::int64_t>(asked),
                          fmt::format("by tensors, which hold {} of the {} that the system grants this process "
                                      "(ulimit -d, vm.overcommit_memory)",
                                      format_bytes(static_cast<std::int64_t>(committed_)),
                                      format_bytes(static_cast<std::int64_t>(committed_) + data_left())));
    committed_ = next;
    return true;
  }
  void decommit(std::size_t first, std::size_t last) noexcept {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t begin = round_up(first, page), end = last / page * page;
    if (end > begin) madvise(base_ + begin, end - begin, MADV_DONTNEED);
  }

 private:
  /// `bytes` minus thread stacks and oneDNN's generated code, whose failed allocation would end the process.
  static std::int64_t without_stacks_and_code(std::int64_t bytes) {
    constexpr int loading_threads = 2;  // the default number: for training and for evaluation
    constexpr std::int64_t generated_code = std::int64_t{48} << 20;
    return std::max<std::int64_t>(bytes - (threads() + loading_threads) * default_stack() - generated_code, 0);
  }
  /// Bytes of address space to reserve: more than the memory, since free blocks may lie between used ones. Under an
  /// address space limit, an eighth is left for other uses.
  std::size_t reservable() const {
    const std::size_t wanted = 2 * static_cast<std::size_t>(capacity_);
    const std::int64_t left = address_space_left();
    if (left >= static_cast<std::int64_t>(wanted)) return wanted;
    return static_cast<std::size_t>(without_stacks_and_code(left - left / 8));
  }

  std::byte* base_ = nullptr;
  std::size_t reserved_ = 0;
  std::size_t committed_ = 0;  // accessible bytes from `base_` on
  std::int64_t capacity_ = physical_memory();
};

/// The memory of a cuda device. The backend maps pieces of it into the range as the range grows.
class DeviceMemory {
 public:
  static constexpr std::size_t alignment = 256;  // as in cudaMalloc; workspaces of the CUDA libraries rely on it
  explicit DeviceMemory(Device device)
      : device_(device), backend_(backend(device)), capacity_(backend_.capacity(device.index)) {}

  std::int64_t capacity() const { return capacity_; }
  std::byte* base() const { return base_; }
  std::size_t size() const { return 2 * static_cast<std::size_t>(capacity_); }
  std::int64_t available(std::size_t) const { return capacity_; }
  [[noreturn]] void exhausted(std::size_t asked, std::int64_t capacity) const {
    report_exhausted(device_, asked, capacity);
  }
  void reserve(std::size_t asked) {
    if (capacity_ == 0)
      throw OutOfMemory(
          static_cast<std::int64_t>(asked),
          fmt::format("out of memory on {}: it has none left for tensors beside what CUDA and its "
                      "libraries take: other programs hold it (nvidia-smi names them), or it is too small",
                      name_of(device_)));
    base_ = backend_.reserve(device_.index, size());
  }
  bool commit(std::size_t begin, std::size_t end, std::size_t) { return backend_.commit(device_.index, begin, end); }
  void decommit(std::size_t begin, std::size_t end) noexcept { backend_.decommit(device_.index, begin, end); }

 private:
  Device device_;
  Backend& backend_;
  std::int64_t capacity_;
  std::byte* base_ = nullptr;
};

Allocator* make_allocator(Device device) {
  if (device.kind == DeviceKind::cuda) return new RangeAllocator<DeviceMemory>(device);
  return new RangeAllocator<HostMemory>;
}

#endif

class MetaAllocator final : public Allocator {
 public:
  void* allocate(std::size_t) override { return nullptr; }
  void release(void*, std::size_t) noexcept override {}
  std::int64_t capacity() const override { return std::numeric_limits<std::int64_t>::max(); }
};

}  // namespace

void throw_out_of_memory(std::int64_t bytes, const std::string& by, Device device) {
  const Owner owner = AllocationScope::current();
  const Ledger& account = ledger(device);
  const std::string asked = bytes > 0 ? format_bytes(bytes) : "memory";
  throw OutOfMemory(
      account.total() + bytes,
      fmt::format("out of memory{}: {} asked for {} in {}{}{}; tensors hold {}. The largest holders:\n{}"
                  "A smaller train.batch_size (with train.accumulate), train.precision: bf16, or another memory.policy "
                  "needs less; `lacuna plan` says how much.",
                  device == Device::cpu ? "" : " on " + name_of(device), asked, by,
                  owner.op.text().empty() ? "the program" : owner.op.text(), owner.path.text().empty() ? "" : " of ",
                  owner.path.text(), format_bytes(account.total()), describe(account.holders(), 8)));
}

Allocator& allocator(Device device) {
  // Never destroyed, since tensors in static objects may be destroyed later.
  static auto* const cpu = make_allocator(Device::cpu);
  static auto* const meta = new MetaAllocator;
  if (device == Device::cpu) return *cpu;
  if (device.kind != DeviceKind::cuda) return *meta;
  static std::array<std::atomic<Allocator*>, max_devices> cuda{};
  static std::mutex mutex;
  backend(device);  // throws if the device does not exist
  std::atomic<Allocator*>& own = cuda[device.index];
  if (own.load(std::memory_order_acquire) == nullptr) {
    const std::lock_guard lock(mutex);
    if (own.load(std::memory_order_relaxed) == nullptr) own.store(make_allocator(device), std::memory_order_release);
  }
  return *own.load(std::memory_order_relaxed);
}

}  // namespace lacuna
