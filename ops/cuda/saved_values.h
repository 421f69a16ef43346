// Saved tensors as launchers on cuda take them.
#pragma once

#include <cstdint>

namespace lacuna::cuda {

/// A saved tensor [n] of the type that the launcher's other tensors have: elements as they lie, or codes of a quantized
/// tensor, which the kernel decodes as it reads (ops/cuda/elements.h). Made by for_saved_values (ops/cuda/operand.h).
struct SavedValues {
  const void* values = nullptr;          // null: codes
  const std::uint8_t* codes = nullptr;   // [packed_bytes(count, bits)] (ops/quantize/layout.h)
  const std::uint8_t* params = nullptr;  // [groups, 4]
  std::int64_t group = 0;                // elements of a group, a multiple of 8
  std::uint64_t key = 0;
  int bits = 0;
  bool dithered = false;
};

}  // namespace lacuna::cuda
