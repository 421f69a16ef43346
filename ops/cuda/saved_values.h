// Saved tensors as launchers on cuda take them.
#pragma once

#include "core/host_device.h"

#include <cstdint>

namespace lacuna::cuda {

/// The key of the draws of codes, mixed (ops/quantize/draws.h): a number, or the place where a kernel left it.
struct MixedKey {
  std::uint64_t value = 0;
  const std::uint64_t* drawn = nullptr;
  LACUNA_DEVICE std::uint64_t operator()() const { return drawn != nullptr ? *drawn : value; }
};

/// A saved tensor [n] of the type that the launcher's other tensors have: elements as they lie, or codes of a quantized
/// tensor, which the kernel decodes as it reads (ops/cuda/elements.h). Made by for_saved_values (ops/cuda/operand.h).
struct SavedValues {
  const void* values = nullptr;          // null: codes
  const std::uint8_t* codes = nullptr;   // [packed_bytes(count, bits)] (ops/quantize/layout.h)
  const std::uint8_t* params = nullptr;  // [groups, 4]
  std::int64_t group = 0;                // elements of a group, a multiple of 8
  MixedKey key{};
  int bits = 0;
  bool dithered = false;
};

/// Elements [begin, begin + count) of a tensor of `total` elements that is held in codes; all multiples of 8. Made by
/// coded_range (ops/cuda/operand.h).
struct CodedRange {
  SavedValues codes{};
  std::int64_t total = 0, begin = 0, count = 0;
};

}  // namespace lacuna::cuda
