// Sign masks against their definition.
#include "ops/quantize/sign_mask.h"

#include "core/error.h"
#include "core/parallel.h"
#include "tests/ops/quantized_values.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace lacuna {
namespace {

using namespace test;

constexpr std::array float_types{DType::f32, DType::bf16, DType::f64};

/// Values of either sign, and special values that a comparison or a product with a bit would get wrong.
std::vector<float> various_values(std::int64_t count, std::uint64_t seed) {
  constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  constexpr std::array special{0.0F, -0.0F, infinity, -infinity, nan, -nan, 6e-5F, -6e-5F};
  std::vector<float> values = normal_values(count, seed);
  const RandomStream stream{.seed = seed, .step = 0, .site = 1};
  for (std::size_t i = 0; i < values.size(); ++i)
    if (stream.below(2 * i, 3) == 0) values[i] = special[stream.below(2 * i + 1, special.size())];
  return values;
}

std::vector<std::uint8_t> random_bits(std::int64_t bytes, std::uint64_t seed) {
  const RandomStream stream{.seed = seed, .step = 0, .site = 2};
  std::vector<std::uint8_t> bits(static_cast<std::size_t>(bytes));
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint8_t>(stream.below(i, 256));
  return bits;
}

Tensor tensor_of_bits(const std::vector<std::uint8_t>& bytes) {
  const Tensor bits = Tensor::empty({std::ssize(bytes)}, DType::u8, Device::cpu);
  std::ranges::copy(bytes, bits.data<std::uint8_t>());
  return bits;
}

bool bit_of(const std::uint8_t* bytes, std::int64_t i) { return (bytes[i / 8] >> (i % 8) & 1) != 0; }

/// Calls `f(count)` for every length up to 1030 with one thread, and for some longer ones with one to three.
template <class F>
void for_lengths(const F& f) {
  const int before = threads();
  set_threads(1);
  for (std::int64_t count = 0; count <= 1030; ++count) f(count);
  for (const int several : {1, 2, 3}) {
    set_threads(several);
    for (const std::int64_t count : {65535, 65536, 65537, 131'072, 200'003}) f(count);
  }
  set_threads(before);
}

/// Values as bytes, to tell NaN and signed zeros apart.
std::vector<std::byte> raw(const Tensor& x) { return {x.raw(), x.raw() + x.bytes()}; }

/// in[i] if `stays(i)`, otherwise +0.
template <class Stays>
std::vector<std::byte> where(const Tensor& in, const Stays& stays) {
  std::vector<std::byte> expected(static_cast<std::size_t>(in.bytes()));
  const auto size = static_cast<std::size_t>(size_of(in.dtype()));
  for (std::int64_t i = 0; i < in.count(); ++i)
    if (stays(i))
      std::memcpy(expected.data() + static_cast<std::size_t>(i) * size, in.raw() + i * size_of(in.dtype()), size);
  return expected;
}

}  // namespace

TEST_CASE("sign mask: a bit is set where the element is positive, and none behind the last") {
  for (const DType dtype : float_types)
    for_lengths([&](std::int64_t count) {
      const Tensor x = tensor_of(various_values(count, static_cast<std::uint64_t>(count)), dtype);
      const std::vector<double> values = x.to_vector();
      std::vector<std::uint8_t> expected(static_cast<std::size_t>((count + 7) / 8));
      for (std::size_t i = 0; i < values.size(); ++i)
        if (values[i] > 0) expected[i / 8] = static_cast<std::uint8_t>(expected[i / 8] | 1U << i % 8);
      const Tensor bits = quant::pack_signs(x);
      REQUIRE(bits.dtype() == DType::u8);
      REQUIRE(bits.shape() == Shape{(count + 7) / 8});
      const auto* const bytes = bits.data<std::uint8_t>();
      REQUIRE(std::vector<std::uint8_t>(bytes, bytes + bits.count()) == expected);
      if (count > 0) REQUIRE(bits.storage()->owner().purpose == Purpose::saved);
    });
}

TEST_CASE("sign mask: values pass where their bit is set, from any first bit; rectify also passes NaN") {
  for (const DType dtype : float_types)
    for_lengths([&](std::int64_t count) {
      const std::int64_t first = count * 7 % 41;
      const std::vector<std::uint8_t> bytes = random_bits((first + count + 7) / 8, static_cast<std::uint64_t>(count));
      const Tensor in = tensor_of(various_values(count, 3), dtype), bits = tensor_of_bits(bytes);
      const std::vector<double> values = in.to_vector();
      const auto passes = where(in, [&](std::int64_t i) { return bit_of(bytes.data(), first + i); });
      const auto rectified = where(in, [&](std::int64_t i) {
        return bit_of(bytes.data(), first + i) || std::isnan(values[static_cast<std::size_t>(i)]);
      });
      Tensor out = in.clone();
      quant::pass_where_set(in, bits, first, out);
      REQUIRE(raw(out) == passes);
      quant::rectify(in, bits, first, out);
      REQUIRE(raw(out) == rectified);
      // In place.
      out = in.clone();
      quant::pass_where_set(out, bits, first, out);
      REQUIRE(raw(out) == passes);
      out = in.clone();
      quant::rectify(out, bits, first, out);
      REQUIRE(raw(out) == rectified);
      out = in.clone();
      quant::rectify(dtype, out.raw(), count, bytes.data(), first);
      REQUIRE(raw(out) == rectified);
    });
}

TEST_CASE("sign mask: rectify by packed signs equals ReLU") {
  for (const DType dtype : float_types) {
    const Tensor x = tensor_of(various_values(3000, 5), dtype), out = Tensor::empty(x.shape(), dtype, Device::cpu);
    const std::vector<double> values = x.to_vector();
    quant::rectify(x, quant::pack_signs(x), 0, out);
    CHECK(raw(out) == where(x, [&](std::int64_t i) {
            const double value = values[static_cast<std::size_t>(i)];
            return value > 0 || std::isnan(value);
          }));
  }
}

TEST_CASE("sign mask: bits unpack to integers from any first bit, and nothing beyond is written") {
  const std::vector<std::uint8_t> bytes = random_bits(140, 1);
  for (std::int64_t count = 0; count <= 1030; ++count)
    for (const std::int64_t first : {std::int64_t{0}, std::int64_t{1}, count % 41, std::int64_t{64}}) {
      std::vector<std::int32_t> out(static_cast<std::size_t>(count + 1), -5);
      quant::unpack_signs(bytes.data(), first, count, out.data());
      for (std::int64_t i = 0; i < count; ++i)
        REQUIRE(out[static_cast<std::size_t>(i)] == (bit_of(bytes.data(), first + i) ? 1 : 0));
      REQUIRE(out.back() == -5);
    }
}

TEST_CASE("sign mask: too few bits and outputs of another length or type are errors") {
  const Tensor in = tensor_of(normal_values(20, 1)), bits = quant::pack_signs(in);  // 24 bits
  quant::rectify(in, bits, 4, in);
  for (const auto act :
       {static_cast<void (*)(const Tensor&, const Tensor&, std::int64_t, const Tensor&)>(quant::rectify),
        quant::pass_where_set}) {
    CHECK_THROWS_AS(act(in, bits, 5, in), Error);
    CHECK_THROWS_AS(act(in, bits, 0, tensor_of(normal_values(21, 1))), Error);
    CHECK_THROWS_AS(act(in, bits, 0, in.to(DType::bf16)), Error);
  }
}

}  // namespace lacuna
