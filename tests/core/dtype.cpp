#include "core/dtype.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace lacuna {
namespace {

template <class Half>
Half of_bits(std::uint32_t bits) {
  Half half;
  half.bits = static_cast<std::uint16_t>(bits);
  return half;
}

/// Value of the f16 with these bits, by the definition of the format.
double f16_value(std::uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31U), mantissa = static_cast<int>(bits & 1023U);
  const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
  if (exponent == 31) return mantissa == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

/// The half nearest to `value`, ties to even, by search. For finite values that do not round to infinity.
template <class Half>
std::uint16_t rounded_by_search(float value, std::uint32_t first_infinity) {
  std::uint32_t low = 0, high = first_infinity;  // magnitudes ascend with their bits
  const float magnitude = std::abs(value);
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    (static_cast<float>(of_bits<Half>(middle)) <= magnitude ? low : high) = middle;
  }
  const double below = static_cast<float>(of_bits<Half>(low)), above = static_cast<float>(of_bits<Half>(high));
  const double to_below = magnitude - below, to_above = above - magnitude;
  const bool up = to_above < to_below || (to_above == to_below && (low & 1U) != 0);
  return static_cast<std::uint16_t>((up ? high : low) | (std::signbit(value) ? 0x8000U : 0U));
}

}  // namespace

TEST_CASE("every f16 converts to its value and back") {
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const f16 half = of_bits<f16>(bits);
    const double expected = f16_value(bits);
    const auto value = static_cast<float>(half);
    if (std::isnan(expected)) {
      REQUIRE(std::isnan(value));
      REQUIRE(std::isnan(static_cast<float>(f16(value))));
    } else {
      REQUIRE(static_cast<double>(value) == expected);
      REQUIRE(f16(value).bits == bits);
    }
  }
}

TEST_CASE("every bf16 converts to f32 and back") {
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const auto value = static_cast<float>(of_bits<bf16>(bits));
    if (std::isnan(value))
      REQUIRE(std::isnan(static_cast<float>(bf16(value))));
    else
      REQUIRE(bf16(value).bits == bits);
  }
}

TEST_CASE("halves round to nearest, ties to even") {
  // The midpoint of every pair of neighbours, and the next float on either side of it.
  for (std::uint32_t bits = 0; bits < 0x7bffU; ++bits) {
    const float a = static_cast<float>(of_bits<f16>(bits)), b = static_cast<float>(of_bits<f16>(bits + 1));
    const float tie = (a + b) / 2;
    REQUIRE(f16(tie).bits == (bits + (bits & 1U)));
    REQUIRE(f16(std::nextafter(tie, 0.0F)).bits == bits);
    REQUIRE(f16(std::nextafter(tie, 1e6F)).bits == bits + 1);
    REQUIRE(f16(-tie).bits == (0x8000U | (bits + (bits & 1U))));
  }
  for (std::uint32_t i = 0; i < 20000; ++i) {
    const float value = std::bit_cast<float>(i * 0x1a2b3U & 0x7fffffffU);
    if (!std::isfinite(value)) continue;
    if (value < 65520.0F) REQUIRE(f16(value).bits == rounded_by_search<f16>(value, 0x7c00U));
    if (value < 3.38e38F) REQUIRE(bf16(value).bits == rounded_by_search<bf16>(value, 0x7f80U));
  }
}

TEST_CASE("halves overflow to infinity and keep NaN") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  CHECK(f16(65504.0F).bits == 0x7bff);
  CHECK(f16(65519.99F).bits == 0x7bff);
  CHECK(f16(65520.0F).bits == 0x7c00);
  CHECK(f16(-infinity).bits == 0xfc00);
  CHECK(bf16(std::numeric_limits<float>::max()).bits == 0x7f80);
  CHECK(bf16(-infinity).bits == 0xff80);
  CHECK(std::isnan(static_cast<float>(bf16(std::bit_cast<float>(0x7f800001U)))));
  CHECK(std::isnan(static_cast<float>(f16(std::bit_cast<float>(0xff800001U)))));
}

TEST_CASE("names, sizes and compute types of element types") {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i64, DType::i32, DType::u8})
    with_type(dtype, [&]<class T>(Type<T>) {
      CHECK(dtype_of<T>() == dtype);
      CHECK(size_of(dtype) == static_cast<std::int64_t>(sizeof(T)));
      CHECK(is_floating(dtype) == !std::is_integral_v<T>);
      if (is_floating(dtype)) CHECK(compute_type(dtype) == (dtype == DType::f64 ? DType::f64 : DType::f32));
    });
  CHECK(name_of(DType::bf16) == "bf16");
  CHECK_THROWS_AS(with_float_type(DType::i64, [](auto) {}), Error);
  CHECK_THROWS_AS(with_float_type(DType::f16, [](auto) {}), Error);  // a type of files: ops do not compute on it
}

}  // namespace lacuna
