// Memory of a device. Freed blocks are kept and handed out again: a training step asks for the same sizes every time.
#pragma once

#include "core/device.h"
#include "core/error.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace lacuna {

inline constexpr std::size_t memory_alignment = 64;

/// Memory that a device does not have: says what was asked for, by which op, and who holds what.
class OutOfMemory : public Error {
 public:
  /// `wanted`: bytes held together with those asked for.
  OutOfMemory(std::int64_t wanted, const std::string& message) : Error(Fault::run, message), wanted_(wanted) {}
  std::int64_t wanted() const { return wanted_; }

 private:
  std::int64_t wanted_;
};

class Allocator {
 public:
  virtual ~Allocator() = default;

  /// `bytes` of memory, aligned to `memory_alignment`, not initialised; null where the device has none or `bytes` is 0.
  /// Throws OutOfMemory when it does not fit.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* memory, std::size_t bytes) noexcept = 0;

  /// The most bytes the device can hold.
  virtual std::int64_t capacity() const = 0;
  /// The most bytes this process could hold now, what it holds included: what the machine and the limits on the process
  /// allow.
  virtual std::int64_t available() const { return capacity(); }
  /// Gives free blocks back to the system.
  virtual void trim() {}
};

Allocator& allocator(Device device);

/// Refuses an allocation of `bytes` on the CPU, or of an unknown number (0), that the op under way asked for; `by` says
/// what asked it: `by a library`. The message says who holds what.
[[noreturn]] void throw_out_of_memory(std::int64_t bytes, const std::string& by);

}  // namespace lacuna
