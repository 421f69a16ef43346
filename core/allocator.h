// Memory of a device. Freed blocks are kept and handed out again: a training step asks for the same sizes every time.
#pragma once

#include "core/device.h"

#include <cstddef>
#include <cstdint>

namespace lacuna {

inline constexpr std::size_t memory_alignment = 64;

class Allocator {
 public:
  virtual ~Allocator() = default;

  /// `bytes` of memory, aligned to `memory_alignment`, not initialised; null where the device has none or `bytes` is 0.
  /// Throws an Error that says who holds what when it does not fit.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* memory, std::size_t bytes) noexcept = 0;

  /// The most bytes the device can hold.
  virtual std::int64_t capacity() const = 0;
  /// The most bytes this process could hold now, what it holds included.
  virtual std::int64_t available() const { return capacity(); }
  /// Gives free blocks back to the system.
  virtual void trim() {}
};

Allocator& allocator(Device device);

}  // namespace lacuna
