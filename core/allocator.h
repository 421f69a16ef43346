// Memory of a device. Freed blocks are cached and reused, since training steps repeat the same sizes.
#pragma once

#include "core/device.h"
#include "core/error.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace lacuna {

inline constexpr std::size_t memory_alignment = 64;

/// A device has too little memory. The message names the size, the op and the largest holders.
class OutOfMemory : public Error {
 public:
  /// `wanted`: bytes held plus bytes requested.
  OutOfMemory(std::int64_t wanted, const std::string& message) : Error(Fault::run, message), wanted_(wanted) {}
  std::int64_t wanted() const { return wanted_; }

 private:
  std::int64_t wanted_;
};

class Allocator {
 public:
  virtual ~Allocator() = default;

  /// Uninitialised memory, aligned to `memory_alignment`; null on `meta` and for 0 bytes. Throws OutOfMemory if it does
  /// not fit.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* memory, std::size_t bytes) noexcept = 0;

  /// Bytes that the device can hold.
  virtual std::int64_t capacity() const = 0;
  /// Bytes that this process could hold now, including those it holds, given the free memory of the machine and the
  /// limits of the process.
  virtual std::int64_t available() const { return capacity(); }
  /// Returns free blocks to the system.
  virtual void trim() {}

  /// From here to `end_pool`, blocks come from a private pool, and blocks released to it go back to it. The pool grows
  /// from the other free memory and keeps it until `free_pool`, so that no other tensor overwrites the memory of a
  /// captured graph between replays. An allocator has one pool.
  virtual void begin_pool() {}
  virtual void end_pool() {}
  /// Frees the pool's blocks for all tensors, now or once they are released.
  virtual void free_pool() noexcept {}
  /// Bytes of the pool's free blocks, which serve no allocation outside the pool.
  virtual std::int64_t pool_bytes() const { return 0; }
};

/// Throws Error if the device does not exist.
Allocator& allocator(Device device);

/// Throws OutOfMemory for an allocation of `bytes` (0: unknown) by the current op. `by` names the allocator in the
/// message: `by a library`. The message lists the largest holders.
[[noreturn]] void throw_out_of_memory(std::int64_t bytes, const std::string& by, Device device = Device::cpu);

}  // namespace lacuna
