// Element types, free of host-only headers so that kernels in .cu files can include them.
#pragma once

#include "core/host_device.h"

#include <bit>
#include <cstdint>
#include <type_traits>

namespace lacuna {

/// `coded`: elements in few bits with scales, as a WeightFormat says; such a tensor has no elements to point at.
enum class DType : std::uint8_t { f32, bf16, f16, f64, i64, i32, u8, coded };

/// Brain floating point: the upper half of an f32. Arithmetic happens in float.
struct bf16 {
  std::uint16_t bits = 0;
  bf16() = default;
  LACUNA_HOST_DEVICE explicit bf16(float value) {
#if defined(__CUDA_ARCH__)
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
    const auto u = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = u + 0x7fffU + ((u >> 16) & 1U);  // to nearest, ties to even
    const bool is_nan = (u & 0x7fffffffU) > 0x7f800000U;
    bits = static_cast<std::uint16_t>((is_nan ? (u | 0x400000U) : rounded) >> 16);
#endif
  }
  LACUNA_HOST_DEVICE explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

/// IEEE half precision; arithmetic is in float. On the CPU it is only a storage type for weights in files, converted
/// and copied; cuda kernels compute on it.
struct f16 {
  std::uint16_t bits = 0;
  f16() = default;
  LACUNA_HOST_DEVICE explicit f16(float value) {
#if defined(__CUDA_ARCH__)
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
    const auto u = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (u >> 16) & 0x8000U, magnitude = u & 0x7fffffffU;
    std::uint32_t out;
    if (magnitude > 0x7f800000U) {
      out = 0x7e00U;
    } else if (magnitude >= 0x477ff000U) {  // rounds to 65536 or more
      out = 0x7c00U;
    } else if (magnitude < 0x38800000U) {  // below the smallest normal half: align with 2^-24
      out = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U;
    } else {
      out = (magnitude - 0x38000000U + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
    }
    bits = static_cast<std::uint16_t>(sign | out);
#endif
  }
  LACUNA_HOST_DEVICE explicit operator float() const {
#if defined(__CUDA_ARCH__)
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
#else
    const std::uint32_t sign = (bits & 0x8000U) << 16, rest = bits & 0x7fffU;
    float magnitude;
    if (rest >= 0x7c00U) {
      magnitude = std::bit_cast<float>(0x7f800000U | ((rest & 0x3ffU) << 13));
    } else {  // times 2^112 moves the exponent to its place, for subnormals too
      magnitude = std::bit_cast<float>(rest << 13) * 0x1p112F;
    }
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
#endif
  }
};

template <class T>
struct Type {
  using type = T;
};

template <class T>
inline constexpr bool is_half = std::is_same_v<T, bf16> || std::is_same_v<T, f16>;

/// The type in which arithmetic on T is done: double for double, float for the other floating-point types.
template <class T>
using Compute = std::conditional_t<is_half<T>, float, T>;

template <class T>
LACUNA_HOST_DEVICE constexpr Compute<T> to_compute(T value) {
  return static_cast<Compute<T>>(value);
}

template <class T>
consteval DType dtype_of() {
  if constexpr (std::is_same_v<T, float>)
    return DType::f32;
  else if constexpr (std::is_same_v<T, bf16>)
    return DType::bf16;
  else if constexpr (std::is_same_v<T, f16>)
    return DType::f16;
  else if constexpr (std::is_same_v<T, double>)
    return DType::f64;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return DType::i64;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return DType::i32;
  else {
    static_assert(std::is_same_v<T, std::uint8_t>);
    return DType::u8;
  }
}

constexpr std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
    case DType::f16:
      return 2;
    case DType::u8:
      return 1;
    case DType::coded:
      break;  // Tensor::bytes knows
  }
  return 0;
}

/// The type in which arithmetic on `dtype` is done, also the type of its statistics and parameters.
constexpr DType compute_type(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

constexpr bool is_floating(DType dtype) { return dtype <= DType::f64; }
constexpr bool is_half_type(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }

namespace detail {
[[noreturn]] void throw_not_on_cuda(DType dtype);
}  // namespace detail

/// Calls `f(Type<T>{})` with the C++ type of `dtype`, for the types that cuda kernels compute on: f32, bf16 and f16.
template <class F>
void with_cuda_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::f32:
      return f(Type<float>{});
    case DType::bf16:
      return f(Type<bf16>{});
    case DType::f16:
      return f(Type<f16>{});
    default:
      detail::throw_not_on_cuda(dtype);
  }
}

}  // namespace lacuna
