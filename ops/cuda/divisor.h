// Division by a number that all threads share, for .cu files: 64-bit division takes a GPU about a hundred instructions.
#pragma once

#include "core/host_device.h"

#include <bit>
#include <cstdint>

namespace lacuna::cuda {

class Divisor {
 public:
  /// `value`: 1 or more.
  explicit Divisor(std::int64_t value)
      : value_(value),
        shift_(value > 0 && (value & (value - 1)) == 0 ? std::countr_zero(static_cast<std::uint64_t>(value)) : -1) {}

  /// n / value, for n >= 0.
  LACUNA_DEVICE std::int64_t quotient(std::int64_t n) const {
    if (shift_ >= 0) return n >> shift_;
    if (n <= 0xffffffff && value_ <= 0xffffffff)
      return static_cast<std::int64_t>(static_cast<std::uint32_t>(n) / static_cast<std::uint32_t>(value_));
    return n / value_;
  }
  LACUNA_DEVICE std::int64_t remainder(std::int64_t n) const { return n - quotient(n) * value_; }

 private:
  std::int64_t value_;
  int shift_;  // of a power of two; -1: it is none
};

}  // namespace lacuna::cuda
