// Saved tensors of a GPU in memory of the host.
//
// Copies run on the device's side stream, beside its kernels. A tensor that is put stays on the device until `buffer`
// bytes were put after it: its copy begins half way, so that what backward reads first is never copied at all. `get`
// fetches ahead what was put before, until `buffer` bytes have come back or not yet left. The host waits for nothing.
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
  std::int64_t budget = 0;                        // bytes of the host's memory at most; 0: all but the last GiB
  std::int64_t buffer = std::int64_t{256} << 20;  // bytes on the device that leave, and as many that come back
  Device device{};  // of the tensors: cuda, or meta, where bytes of the device are counted
  std::function<void(const std::string&)> warn{};  // told once that a tensor stays on the device; may be null
};

class HostStore final : public OffloadStore {
 public:
  explicit HostStore(HostStoreOptions options);
  ~HostStore() override;

  /// Nothing where the budget is used up.
  std::optional<Id> put(const Tensor& tensor) override;
  Tensor get(Id id, bool again) override;
  void drop(Id id) noexcept override;
  std::int64_t bytes() const override;

 private:
  using MarkPtr = std::unique_ptr<StreamMark>;
  /// Memory of the host that the device reads and writes at its full speed.
  struct Block {
    Tensor memory{};            // u8 [whole pages of bytes, and one more], of the CPU
    std::byte* data = nullptr;  // where its pages begin: only whole ones can be pinned
    bool is_pinned = false;
  };
  struct Stored {
    Shape shape;
    DType dtype;
    std::int64_t bytes;
    Block host{};        // empty until its copy begins
    Tensor on_device{};  // before it has left, and once it was fetched
    MarkPtr mark{};      // of the copy to or from the host; null: none is under way
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
  std::deque<Id> leaving_;                          // those that have not left, in the order of `put`
  std::multimap<std::int64_t, Block> free_blocks_;  // by bytes: the next step wants the same
  std::int64_t free_bytes_ = 0, leaving_bytes_ = 0, fetched_bytes_ = 0;
  std::int64_t bytes_ = 0, highest_ = 0;  // of all that are in the store, now and at most
  Id next_ = 1;
  bool is_full_ = false;
};

}  // namespace lacuna
