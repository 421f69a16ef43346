// Weights in few bits: bytes, bits and errors of the formats.
#include "core/coded/codec.h"
#include "core/coded/maps.h"
#include "core/random.h"
#include "core/tensor.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <vector>

namespace lacuna {
namespace {

constexpr std::array codes{WeightCode::bf16, WeightCode::int8, WeightCode::nf4, WeightCode::int4};

WeightFormat format_for(WeightCode code, const Shape& shape) {
  if (code == WeightCode::bf16) return {};
  return code == WeightCode::int8 ? format_in_8_bits(shape.count() / shape.front()) : format_in_4_bits(code);
}

Tensor drawn(const Shape& shape) {
  const RandomStream stream{.seed = 1, .step = 0, .site = 2};
  std::vector<float> values(static_cast<std::size_t>(shape.count()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = stream.uniform(i) - 0.5F;
  return Tensor::from(std::span<const float>(values), shape);
}

Tensor encoded(const Tensor& values, WeightCode code) {
  const Tensor coded = Tensor::coded(values.shape(), format_for(code, values.shape()), Device::cpu);
  coded.copy_from(values);
  return coded;
}

std::uint8_t byte_of(const Tensor& coded, std::int64_t place) {
  return static_cast<std::uint8_t>(coded.as_bytes().data<const std::byte>()[place]);
}

}  // namespace

TEST_CASE("bytes of weights in few bits") {
  const Shape shape{130, 130};  // 16,900 elements in 265 blocks, two of blocks' scales
  CHECK(encoded(drawn(shape), WeightCode::bf16).bytes() == 2 * 16900);
  CHECK(encoded(drawn(shape), WeightCode::int8).bytes() == 16900 + 4 * 130);
  CHECK(encoded(drawn(shape), WeightCode::nf4).bytes() == 8450 + 265 + 2 * 4 + 4);
  CHECK(encoded(drawn(shape), WeightCode::int4).bytes() == encoded(drawn(shape), WeightCode::nf4).bytes());
}

TEST_CASE("nf4: the first of two elements has the high half, a block of zeros has code 7") {
  std::vector<float> values(129);
  values[0] = -2, values[1] = 2, values[2] = 0.15F;  // 0.075 of the largest: nearest to 0.0796
  values[128] = -3;
  const Tensor coded = Tensor::coded({129}, {.code = WeightCode::nf4, .block = 64}, Device::cpu);
  coded.copy_from(Tensor::from(std::span<const float>(values), {129}));
  CHECK(byte_of(coded, 0) == 0x0F);
  CHECK(byte_of(coded, 1) == 0x87);
  CHECK(byte_of(coded, 40) == 0x77);
  CHECK(byte_of(coded, 64) == 0x07);  // one element in the last byte
  const std::vector<double> decoded = coded.to_vector();
  CHECK(decoded[0] == -2);
  CHECK(decoded[2] == static_cast<double>(0.07958029955625534F * 2.0F));
  CHECK(decoded[127] == 0);
  CHECK(decoded[128] == -3);
}

TEST_CASE("every format decodes within half a step of its codes") {
  for (const Shape& shape : {Shape{7, 37}, Shape{130, 130}, Shape{5, 1}, Shape{3, 2, 3, 3}}) {
    const Tensor values = drawn(shape);
    const std::vector<double> exact = values.to_vector();
    for (const WeightCode code : codes) {
      CAPTURE(shape);
      CAPTURE(name_of(code));
      const std::vector<double> decoded = encoded(values, code).to_vector();
      // The widest gap of nf4 is 0.304 of the scale; nested scales are off by a hundredth at most.
      const double bound = code == WeightCode::bf16   ? 0.5 / 512
                           : code == WeightCode::int8 ? 0.5 / 254
                           : code == WeightCode::nf4  ? 0.5 * 0.16
                                                      : 0.5 * 0.08;
      for (std::size_t i = 0; i < exact.size(); ++i) CHECK(std::abs(decoded[i] - exact[i]) <= bound);
    }
  }
}

TEST_CASE("parts and rows decode to the bits of the whole, in every type") {
  const Tensor values = drawn({37, 83});
  for (const WeightCode code : codes) {
    CAPTURE(name_of(code));
    const Tensor coded = encoded(values, code);
    const std::vector<double> whole = coded.to_vector();
    for (const DType type : {DType::f32, DType::f64, DType::bf16}) {
      const Tensor part = Tensor::empty({11, 40}, type, Device::cpu), rows = Tensor::empty({2, 83}, type, Device::cpu);
      decode(coded, {.first_row = 5, .rows = 11, .first_column = 3, .columns = 40}, part);
      const std::array<std::int64_t, 2> ids{36, 1};
      decode_rows(coded, Tensor::from(std::span<const std::int64_t>(ids), {2}), rows);
      const auto expected = [&](std::size_t row, std::size_t column) {
        const double value = whole[row * 83 + column];
        return type == DType::bf16 ? static_cast<double>(static_cast<float>(bf16(static_cast<float>(value)))) : value;
      };
      for (std::size_t i = 0; i < 11; ++i)
        for (std::size_t j = 0; j < 40; ++j) CHECK(part.to_vector()[i * 40 + j] == expected(5 + i, 3 + j));
      for (std::size_t j = 0; j < 83; ++j) {
        CHECK(rows.to_vector()[j] == expected(36, j));
        CHECK(rows.to_vector()[83 + j] == expected(1, j));
      }
    }
  }
}

TEST_CASE("decoded weights are encoded to the same codes") {
  for (const WeightCode code : {WeightCode::bf16, WeightCode::nf4}) {
    const Tensor once = Tensor::coded(
        {40, 64}, code == WeightCode::nf4 ? WeightFormat{.code = code, .block = 64} : format_for(code, {40, 64}),
        Device::cpu);
    once.copy_from(drawn({40, 64}));
    const Tensor again = once.clone();
    again.copy_from(once.to(DType::f32));
    CHECK(std::memcmp(once.as_bytes().raw(), again.as_bytes().raw(), static_cast<std::size_t>(once.bytes())) == 0);
  }
}

TEST_CASE("values are rounded as the format says") {
  WeightFormat format{.code = WeightCode::nf4, .rounding = DType::bf16, .block = 64};
  const Tensor rounded = Tensor::coded({4, 64}, format, Device::cpu);
  rounded.copy_from(drawn({4, 64}));
  for (const double value : rounded.to_vector())
    CHECK(value == static_cast<double>(static_cast<float>(bf16(static_cast<float>(value)))));
}

TEST_CASE("a tensor in few bits has no elements to point at") {
  const Tensor coded = encoded(drawn({16, 16}), WeightCode::nf4);
  CHECK_THROWS_AS(coded.data<float>(), Error);
  CHECK_THROWS_AS(coded.leading(1, 2), Error);
  CHECK_THROWS_AS(Tensor::empty({2}, DType::coded, Device::cpu), Error);
  const std::array<std::int64_t, 1> beyond{16};
  CHECK_THROWS_AS(decode_rows(coded, Tensor::from(std::span<const std::int64_t>(beyond), {1}),
                              Tensor::empty({1, 16}, DType::f32, Device::cpu)),
                  Error);
}

TEST_CASE("weights one below the other keep their values without being decoded") {
  for (const WeightCode code : codes) {
    CAPTURE(name_of(code));
    std::vector<Tensor> parts;
    std::vector<double> values;
    for (const Shape& shape : {Shape{3, 128}, Shape{130, 128}}) {
      parts.push_back(encoded(drawn(shape), code));
      std::ranges::copy(parts.back().to_vector(), std::back_inserter(values));
    }
    WeightFormat format = parts.front().format();
    format.nested_block = 0;
    const Tensor whole = Tensor::coded({133, 128}, format, Device::cpu);
    copy_part(parts[0], 0, whole);
    copy_part(parts[1], parts[0].count(), whole);
    CHECK(whole.to_vector() == values);
  }
  const WeightFormat nf4 = format_in_4_bits(WeightCode::nf4);
  CHECK(can_join(nf4, std::array<std::int64_t, 2>{64, 192}));
  CHECK_FALSE(can_join(nf4, std::array<std::int64_t, 2>{32, 192}));
}

}  // namespace lacuna
