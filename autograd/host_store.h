// Offloading of GPU tensors to host memory.
//
// Copies run on the device's side stream and overlap with kernels. A tensor is copied out once `buffer` / 2 bytes have
// been put after it, and its device memory is freed once `buffer` bytes have. The tensors that backward reads first are
// thus never copied. `get` prefetches earlier tensors until `buffer` bytes are on the device, fetched or not yet freed.
// The host never waits.
#pragma once

#include "autograd/offload_store.h"
#include "core/backend.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace lacuna {

struct HostStoreOptions {
  std::int64_t budget = 0;  // maximum bytes of host memory; 0: all but the last GiB
  // Bytes on the device for tensors on their way out, and for prefetched ones.
  std::int64_t buffer = std::int64_t{256} << 20;
  Device device{};                                 // device of the tensors: cuda, or meta, where only bytes are counted
  std::function<void(const std::string&)> warn{};  // called once when a tensor stays on the device; may be null
};

class HostStore final : public OffloadStore {
 public:
  explicit HostStore(HostStoreOptions options);
  ~HostStore() override;

  /// Returns nothing if the budget is used up.
  std::optional<Id> put(const Tensor& tensor) override;
  Tensor get(Id id, bool again) override;
  void drop(Id id) noexcept override;
  std::int64_t bytes() const override;

 private:
  using MarkPtr = std::unique_ptr<StreamMark>;
  /// Page-locked host memory, which the device copies at full speed.
  struct Block {
    Tensor memory{};            // u8 [bytes rounded up to pages, plus one page], on the CPU
    std::byte* data = nullptr;  // start of its first whole page: only whole pages can be pinned
    bool is_pinned = false;
  };
  struct Stored {
    Shape shape;
    DType dtype;
    std::int64_t bytes;
    Block host{};        // empty until the copy starts
    Tensor on_device{};  // defined until the tensor has left, and again once it is fetched
    MarkPtr mark{};      // end of the copy to or from the host; null: no copy in progress
    bool has_left = false;
  };

  bool counts_alone() const { return options_.device == Device::meta; }
  Block take_block(std::int64_t bytes);
  void release_blocks(std::int64_t bytes);
  void leave();
  void wait_for_copy(Stored& stored);
  void fetch(Stored& stored);
  void fetch_before(Id id);

  HostStoreOptions options_;
  std::map<Id, Stored> live_;
  std::deque<Id> leaving_;                          // tensors that have not left yet, in the order of `put`
  std::multimap<std::int64_t, Block> free_blocks_;  // by bytes; kept because the next step needs the same sizes
  std::int64_t free_bytes_ = 0, leaving_bytes_ = 0, fetched_bytes_ = 0;
  std::int64_t bytes_ = 0, highest_ = 0;  // bytes in the store, now and at the peak
  Id next_ = 1;
  bool is_full_ = false;
};

}  // namespace lacuna
