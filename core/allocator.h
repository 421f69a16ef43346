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
  /// Gives free blocks back to the system.
  virtual void trim() {}
};

Allocator& allocator(Device device);

/// Largest resident size of this process so far, in bytes, as the operating system counts it.
std::int64_t process_peak();
/// Resident size now.
std::int64_t process_resident();
/// Starts `process_peak` anew where the operating system allows it; says whether it does.
bool reset_process_peak();

}  // namespace lacuna
