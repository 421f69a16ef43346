// Names of element types, and dispatch from a run-time type to a C++ type.
#pragma once

#include "core/error.h"
#include "core/number.h"

#include <string_view>

namespace lacuna {

constexpr std::string_view name_of(DType dtype) {
  constexpr std::string_view names[] = {"f32", "bf16", "f16", "f64", "i64", "i32", "u8", "coded"};
  return names[static_cast<std::size_t>(dtype)];
}

/// Calls `f(Type<T>{})` with the C++ type of `dtype`, for the types that ops compute on: f32, bf16 and f64.
template <class F>
decltype(auto) with_float_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(Type<float>{});
    case DType::bf16:
      return f(Type<bf16>{});
    case DType::f64:
      return f(Type<double>{});
    case DType::f16:
      fail("f16 only stores weights: convert the tensor to f32 or bf16 first");
    default:
      fail("expected f32, bf16 or f64, got {}", name_of(dtype));
  }
}

/// Calls `f(Type<T>{})` with the type in which arithmetic on `dtype` is done.
template <class F>
decltype(auto) with_compute_type(DType dtype, F&& f) {
  return dtype == DType::f64 ? f(Type<double>{}) : f(Type<float>{});
}

/// Calls `f(Type<T>{})` with the C++ type of any `dtype`, for conversions and copies.
template <class F>
decltype(auto) with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f16:
      return f(Type<f16>{});
    case DType::i64:
      return f(Type<std::int64_t>{});
    case DType::i32:
      return f(Type<std::int32_t>{});
    case DType::u8:
      return f(Type<std::uint8_t>{});
    default:
      return with_float_type(dtype, std::forward<F>(f));
  }
}

}  // namespace lacuna
