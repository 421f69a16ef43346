// Copies in units of 1 to 16 bytes, for .cu files.
#pragma once

#include "core/block.h"

namespace lacuna::cuda {

/// Calls `f(Type<Unit>)` with the largest unit of which all numbers that are joined (by |) in `multiples` are
/// multiples: addresses and distances in bytes.
template <class F>
void with_copy_unit(std::uint64_t multiples, const F& f) {
  if (multiples % 16 == 0) return f(Type<Pack<std::uint32_t, 4>>{});
  if (multiples % 8 == 0) return f(Type<std::uint64_t>{});
  if (multiples % 4 == 0) return f(Type<std::uint32_t>{});
  if (multiples % 2 == 0) return f(Type<std::uint16_t>{});
  f(Type<std::uint8_t>{});
}
inline std::uint64_t address(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

}  // namespace lacuna::cuda
