#include "autograd/host_store.h"

#include "core/error.h"
#include "core/ledger.h"
#include "core/system_memory.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace lacuna {
namespace {

constexpr std::int64_t host_page = 4096;

}  // namespace

HostStore::HostStore(HostStoreOptions options) : options_(std::move(options)) {
  constexpr std::int64_t left_free = std::int64_t{1} << 30;
  if (options_.budget > 0) return;
  options_.budget =
      counts_alone() ? std::numeric_limits<std::int64_t>::max() : std::max<std::int64_t>(free_memory() - left_free, 0);
}

HostStore::~HostStore() {
  while (!live_.empty()) drop(live_.begin()->first);
  try {
    release_blocks(0);
  } catch (const Error&) {  // the device is broken, which has already ended the run
  }
}

/// Releases free host memory, the largest blocks first, until at most `bytes` are free.
void HostStore::release_blocks(std::int64_t bytes) {
  if (free_bytes_ <= bytes) return;
  Backend& own = backend(options_.device);
  own.synchronize(own.side_stream(options_.device.index));  // a copy of a block may be in progress
  while (free_bytes_ > bytes && !free_blocks_.empty()) {
    const auto last = std::prev(free_blocks_.end());
    if (last->second.is_pinned) own.unpin(last->second.data);
    free_bytes_ -= last->first;
    free_blocks_.erase(last);
  }
}

HostStore::Block HostStore::take_block(std::int64_t bytes) {
  if (const auto found = free_blocks_.find(bytes); found != free_blocks_.end()) {
    Block block = std::move(found->second);
    free_blocks_.erase(found);
    free_bytes_ -= bytes;
    return block;
  }
  // Without this, batches of varying sizes would accumulate blocks of all sizes.
  release_blocks(highest_ - bytes_);
  const AllocationScope scope({Purpose::saved, Label("offload"), {}});
  const std::int64_t pages = (bytes + host_page - 1) / host_page * host_page;
  Block block{.memory = Tensor::empty({pages + host_page}, DType::u8, Device::cpu, Purpose::saved)};
  const auto address = reinterpret_cast<std::uintptr_t>(block.memory.raw());
  block.data = block.memory.raw() + (host_page - address % host_page) % host_page;
  block.is_pinned = backend(options_.device).pin(block.data, static_cast<std::size_t>(pages));
  return block;
}

std::optional<OffloadStore::Id> HostStore::put(const Tensor& tensor) {
  const std::int64_t bytes = tensor.bytes();
  if (bytes > options_.budget - bytes_) {
    if (!std::exchange(is_full_, true) && options_.warn)
      options_.warn("memory.offload: the host's memory for it is used up; further saved tensors stay on the device");
    return {};
  }
  const Id id = next_++;
  live_.emplace(id, Stored{.shape = tensor.shape(), .dtype = tensor.dtype(), .bytes = bytes, .on_device = tensor});
  leaving_.push_back(id);
  leaving_bytes_ += bytes;
  bytes_ += bytes;
  highest_ = std::max(highest_, bytes_);
  leave();
  return id;
}

/// Starts the copies of tensors after which `buffer` / 2 bytes have been put, and frees the device memory of those
/// after which `buffer` bytes have.
void HostStore::leave() {
  std::int64_t after = leaving_bytes_;
  for (const Id id : leaving_) {
    Stored& stored = live_.at(id);
    after -= stored.bytes;
    if (after < options_.buffer / 2) break;
    if (counts_alone() || stored.mark) continue;
    stored.host = take_block(stored.bytes);
    const SideStreamScope side(options_.device);
    backend(options_.device)
        .copy_out_later(stream_of(options_.device), stored.host.data, stored.on_device.raw(),
                        static_cast<std::size_t>(stored.bytes));
    stored.mark = side.mark();
  }
  while (!leaving_.empty()) {
    Stored& oldest = live_.at(leaving_.front());
    if (leaving_bytes_ - oldest.bytes < options_.buffer) break;
    wait_for_copy(oldest);
    oldest.on_device = {};
    oldest.has_left = true;
    leaving_bytes_ -= oldest.bytes;
    leaving_.pop_front();
  }
}

/// Makes later kernels wait for the copy, so that they can use the memory that it reads or writes.
void HostStore::wait_for_copy(Stored& stored) {
  if (stored.mark) wait_for(options_.device, *stored.mark);
  stored.mark.reset();
}

void HostStore::fetch(Stored& stored) {
  const AllocationScope scope({Purpose::saved, Label("offload"), {}});
  stored.on_device = Tensor::empty(stored.shape, stored.dtype, options_.device, Purpose::saved);
  fetched_bytes_ += stored.bytes;
  if (counts_alone()) return;
  const SideStreamScope side(options_.device);
  backend(options_.device)
      .copy_in_later(stream_of(options_.device), stored.on_device.raw(), stored.host.data,
                     static_cast<std::size_t>(stored.bytes));
  stored.mark = side.mark();
}

/// Prefetches the tensors that backward needs next, as far as the buffer has room.
void HostStore::fetch_before(Id id) {
  for (auto at = live_.lower_bound(id); at != live_.begin();) {
    Stored& stored = (--at)->second;
    if (!stored.has_left || stored.on_device.defined()) continue;
    if (leaving_bytes_ + fetched_bytes_ + stored.bytes > options_.buffer) return;
    fetch(stored);
  }
}

Tensor HostStore::get(Id id, bool) {
  Stored& stored = live_.at(id);
  if (!stored.on_device.defined()) fetch(stored);
  Tensor tensor = stored.on_device;
  if (stored.has_left) {
    wait_for_copy(stored);
    stored.on_device = {};
    fetched_bytes_ -= stored.bytes;
  }
  fetch_before(id);
  return tensor;
}

void HostStore::drop(Id id) noexcept {
  const auto found = live_.find(id);
  if (found == live_.end()) return;
  Stored& stored = found->second;
  try {
    wait_for_copy(stored);
  } catch (const Error&) {  // the device is broken, which the next kernel reports
  }
  if (!stored.has_left) {
    std::erase(leaving_, id);
    leaving_bytes_ -= stored.bytes;
  } else if (stored.on_device.defined()) {
    fetched_bytes_ -= stored.bytes;
  }
  bytes_ -= stored.bytes;
  if (stored.host.memory.defined()) {
    free_bytes_ += stored.bytes;
    free_blocks_.emplace(stored.bytes, std::move(stored.host));
  }
  live_.erase(found);
}

std::int64_t HostStore::bytes() const { return bytes_; }

}  // namespace lacuna
