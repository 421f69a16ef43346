// Stores for saved tensors that leave the device's memory between forward and backward: a file (FileStore) or, for a
// GPU, the host's memory (HostStore).
#pragma once

#include "core/tensor.h"

#include <cstdint>
#include <optional>

namespace lacuna {

class OffloadStore {
 public:
  using Id = std::uint64_t;

  OffloadStore() = default;
  virtual ~OffloadStore() = default;
  OffloadStore(const OffloadStore&) = delete;
  OffloadStore& operator=(const OffloadStore&) = delete;

  /// Stores a tensor, which must not change any more. Returns nothing if the store is full; the tensor stays in memory.
  virtual std::optional<Id> put(const Tensor& tensor) = 0;
  /// Loads the tensor. Fast in roughly the reverse order of `put`. `again`: another `get` of it may follow.
  virtual Tensor get(Id id, bool again) = 0;
  /// Removes the tensor.
  virtual void drop(Id id) noexcept = 0;
  /// Bytes currently in the store.
  virtual std::int64_t bytes() const = 0;
};

}  // namespace lacuna
