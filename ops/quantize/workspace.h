// Scratch memory of a kernel as arrays in one workspace tensor.
#pragma once

#include "core/tensor.h"

#include <cstddef>
#include <cstdint>

namespace lacuna::quant {

/// Hands out arrays one behind the other, each aligned to a cache line. Without memory it only adds up their bytes.
class ArrayCutter {
 public:
  explicit ArrayCutter(std::byte* memory = nullptr) : memory_(memory) {}

  /// `count` elements of T, not initialized; null without memory.
  template <class T>
  T* cut(std::int64_t count) {
    static_assert(alignof(T) <= line);
    std::byte* const at = memory_ == nullptr ? nullptr : memory_ + bytes_;
    bytes_ += (count * static_cast<std::int64_t>(sizeof(T)) + line - 1) / line * line;
    return reinterpret_cast<T*>(at);
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  static constexpr std::int64_t line = 64;
  std::byte* memory_;
  std::int64_t bytes_ = 0;
};

/// The workspace tensor that `Arrays(cutter, args...)` takes its arrays from.
template <class Arrays, class... Args>
Tensor workspace_for(Device device, const Args&... args) {
  ArrayCutter cutter;
  Arrays(cutter, args...);
  return Tensor::empty({cutter.bytes()}, DType::u8, device, Purpose::workspace);
}

}  // namespace lacuna::quant
