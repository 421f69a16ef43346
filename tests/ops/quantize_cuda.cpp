// Quantization on cuda, on the stand-in (core/stand_in), against the CPU: the same bytes, and the same values but for
// the last bit.
#include "core/stand_in/fibers.h"
#include "ops/quantize/sign_mask.h"
#include "ops/quantize/slope.h"
#include "tests/ops/quantized_values.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace lacuna {
namespace {

using namespace test;
using quant::Grouping;
using quant::QuantConfig;
using quant::QuantizedTensor;

constexpr auto consecutive = Grouping::Kind::consecutive, columns = Grouping::Kind::columns;
constexpr float infinity = std::numeric_limits<float>::infinity();

/// Normal values, and stretches of 64 elements that are constant, zero, far from zero, tiny, huge.
std::vector<float> varied(std::int64_t count, std::uint64_t seed) {
  std::vector<float> values = normal_values(count, seed);
  for (std::size_t i = 0; i < values.size(); ++i) {
    switch (i / 64 % 11) {
      case 3:
        values[i] = 1.7F;
        break;
      case 5:
        values[i] = 0;
        break;
      case 6:
        values[i] = values[i] * 0.01F + 300;
        break;
      case 8:
        values[i] *= 1e-36F;
        break;
      case 10:
        values[i] *= 7e37F;
        break;
      default:
        break;
    }
  }
  return values;
}

Tensor tensor(const std::vector<float>& values, const Shape& shape, DType dtype) {
  return Tensor::from(std::span<const float>(values), shape, dtype);
}

/// Runs `f` with threads and blocks in several orders, and with streams that run late.
template <class F>
void in_all_orders(const F& f) {
  for (const std::uint64_t seed : {0, 1, 2, 3}) {
    const cuda::stand_in::ScheduleScope schedule(seed);
    CAPTURE(seed);
    f();
  }
}

std::vector<std::uint8_t> bytes_on_cpu(const QuantizedTensor& quantized) {
  QuantizedTensor here = quantized;
  here.bytes = quantized.bytes.to(Device::cpu);
  return bytes_of(here);
}

struct Case {
  Shape shape;
  Grouping grouping;
};
const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {{19, 512}, {consecutive, 256}},  {{5000}, {consecutive, 256}},    {{37, 192}, {consecutive, 192}},
      {{4099}, {consecutive, 8}},       {{1152}, {consecutive, 128}},    {{3, 1024}, {consecutive, 512}},
      {{5, 1024}, {consecutive, 1024}}, {{3, 1003}, {consecutive, 56}},  {{2, 3000}, {consecutive, 1024}},
      {{23, 384}, {consecutive, 384}},  {{11, 768}, {consecutive, 768}},
      {{1, 130}, {consecutive, 7}},     {{9, 700}, {consecutive, 3000}}, {{6, 70}, {consecutive, 1}},
      {{40, 96}, {columns, 32}},        {{41, 33}, {columns, 10}},       {{5, 3, 4, 24}, {columns, 96, 3}},
      {{61, 48}, {columns, 48}},        {{7, 5}, {columns, 2}}};
  return all;
}

/// Calls `f(values, config)` for shapes and groupings, widths and roundings: each width with each rounding for the
/// first shapes, and one width a rounding for each other shape.
template <class F>
void for_each_config(const F& f) {
  int number = 0;
  for (const Case& one : cases()) {
    CAPTURE(one.shape.count());
    CAPTURE(one.grouping.size);
    const std::vector<float> values = varied(one.shape.count(), static_cast<std::uint64_t>(++number));
    for (int bits = 1; bits <= 8; ++bits) {
      int index = 0;  // of the rounding
      for (const std::string_view rounding : {"nearest", "stochastic", "dithered"}) {
        if (number > 4 && (bits + index++ + number) % 3 != 0) continue;
        CAPTURE(bits);
        f(one.shape, values, QuantConfig{.bits = bits, .grouping = one.grouping, .quantizer = rounding});
      }
    }
  }
}

/// The largest magnitude in the group of each element, which rounding errors of sums are measured by.
std::vector<double> magnitudes(const QuantizedTensor& quantized, const std::vector<double>& values) {
  const Grouping& grouping = quantized.config.grouping;
  std::int64_t row = grouping.kind == consecutive ? quantized.shape.count() : 1;
  for (int axis = 1; grouping.kind == columns && axis <= grouping.row_axes; ++axis)
    row *= quantized.shape[quantized.shape.rank() - axis];
  const auto group_of = [&](std::size_t i) {
    return static_cast<std::size_t>(static_cast<std::int64_t>(i) % row / grouping.size);
  };
  std::vector<double> of_group(values.size()), of_element(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    of_group[group_of(i)] = std::max(of_group[group_of(i)], std::abs(values[i]));
  for (std::size_t i = 0; i < values.size(); ++i) of_element[i] = of_group[group_of(i)];
  return of_element;
}

/// Whether `got` is `expected` or a neighbour of it in `dtype`, or a neighbour in f32 of the sum.
bool close(double got, double expected, double magnitude, DType dtype) {
  if (std::isnan(expected)) return std::isnan(got);
  if (dtype == DType::f16) expected = std::clamp(expected, -65504.0, 65504.0);
  const double epsilon = dtype == DType::bf16 ? 0x1p-7 : dtype == DType::f16 ? 0x1p-10 : 0x1p-23;
  const double least = dtype == DType::f16 ? 0x1p-24 : 0x1p-133;  // subnormal numbers
  return std::abs(got - expected) <= epsilon * std::abs(expected) + 0x1p-22 * magnitude + least;
}

}  // namespace

TEST_CASE("cuda: quantize writes the bytes of the CPU") {
  for_each_config([](const Shape& shape, const std::vector<float>& values, const QuantConfig& config) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Tensor x = tensor(values, shape, dtype);
      const std::vector<std::uint8_t> expected = bytes_of(quant::quantize(x, config, 99));
      CHECK(bytes_on_cpu(quant::quantize(x.to(Device::cuda), config, 99)) == expected);
    }
  });
}

TEST_CASE("cuda: groups far from zero quantize as on the CPU") {
  for (const Case& one : cases()) {
    CAPTURE(one.grouping.size);
    std::vector<float> values = normal_values(one.shape.count(), 8);
    for (float& value : values) value = 5 + 0.1F * value;
    const QuantConfig config{.bits = 4, .grouping = one.grouping};
    const Tensor x = tensor(values, one.shape, DType::f32);
    CHECK(bytes_on_cpu(quant::quantize(x.to(Device::cuda), config, 7)) == bytes_of(quant::quantize(x, config, 7)));
  }
}

TEST_CASE("cuda: quantize of f16 writes the bytes of the same values in f32") {
  const std::vector<float> values = normal_values(3000, 5);
  for (const std::int64_t size : {256, 100}) {
    const Tensor x = tensor(values, {3000}, DType::f16);
    const QuantConfig config{.bits = 4, .grouping = {consecutive, size}, .quantizer = "dithered"};
    const QuantizedTensor there = quant::quantize(x.to(Device::cuda), config, 1);
    CHECK(bytes_on_cpu(there) == bytes_of(quant::quantize(x.to(DType::f32), config, 1)));
  }
}

TEST_CASE("cuda: groups with values that are not finite quantize as on the CPU") {
  for (const Case& one : cases()) {
    CAPTURE(one.grouping.size);
    std::vector<float> values = normal_values(one.shape.count(), 3);
    values[1] = infinity;
    values[values.size() / 2] = std::numeric_limits<float>::quiet_NaN();
    values.back() = -infinity;
    const QuantConfig config{.bits = 5, .grouping = one.grouping};
    const Tensor x = tensor(values, one.shape, DType::f32);
    CHECK(bytes_on_cpu(quant::quantize(x.to(Device::cuda), config, 7)) == bytes_of(quant::quantize(x, config, 7)));
  }
}

TEST_CASE("cuda: the same bytes in all orders of threads and blocks") {
  for (const Case& one : cases()) {
    CAPTURE(one.grouping.size);
    const Tensor x = tensor(varied(one.shape.count(), 4), one.shape, DType::f32);
    const QuantConfig config{.bits = 3, .grouping = one.grouping, .quantizer = "dithered"};
    const std::vector<std::uint8_t> expected = bytes_of(quant::quantize(x, config, 11));
    in_all_orders([&] { CHECK(bytes_on_cpu(quant::quantize(x.to(Device::cuda), config, 11)) == expected); });
  }
}

TEST_CASE("cuda: dequantize gives the values of the CPU, of any range") {
  for_each_config([](const Shape& shape, const std::vector<float>& values, const QuantConfig& config) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      const QuantizedTensor here = quant::quantize(tensor(values, shape, DType::f32), config, 5);
      QuantizedTensor there = here, typed = here;
      there.bytes = here.bytes.to(Device::cuda);
      there.dtype = dtype;
      typed.dtype = dtype == DType::f16 ? DType::f32 : dtype;
      const std::int64_t count = shape.count();
      const std::vector<double> largest = magnitudes(typed, dequantized(typed));
      for (const auto& [begin, end] :
           {std::pair{std::int64_t{0}, count}, {count / 3, count / 2 + 1}, {count / 16 * 8, count}, {3, 4}}) {
        CAPTURE(begin);
        const std::vector<double> expected = dequantized(typed, begin, end);
        const Tensor out = Tensor::empty({end - begin}, dtype, Device::cuda);
        quant::dequantize(there, begin, end, out);
        const std::vector<double> got = out.to_vector();
        bool all = true;
        for (std::size_t i = 0; i < got.size(); ++i)
          all &= close(got[i], expected[i], largest[static_cast<std::size_t>(begin) + i], dtype);
        CHECK(all);
      }
    }
  });
}

TEST_CASE("cuda: known ranges give the bytes of the CPU, and the ranges seen") {
  for (const bool finite : {true, false}) {
    for (const Case& one : cases()) {
      CAPTURE(one.grouping.size);
      CAPTURE(finite);
      std::vector<float> values = normal_values(one.shape.count(), 8);
      if (!finite) values[values.size() / 3] = infinity;
      const Tensor x = tensor(values, one.shape, DType::f32);
      const auto groups = static_cast<std::size_t>(quant::group_count(one.shape, one.grouping));
      std::vector<quant::Range> ranges(groups), seen(groups, {7, 8}), expected(groups, {7, 8});
      for (std::size_t i = 0; i < groups; ++i) ranges[i] = {-1 - 0.1F * static_cast<float>(i % 7), 0.9F};
      const QuantConfig config{.bits = 4, .grouping = one.grouping};
      const QuantizedTensor here = quant::quantize(x, config, 2, ranges, expected);
      CHECK(bytes_on_cpu(quant::quantize(x.to(Device::cuda), config, 2, ranges, seen)) == bytes_of(here));
      CHECK(bytes_on_cpu(quant::quantize(x.to(Device::cuda), config, 2, ranges, {})) == bytes_of(here));
      for (std::size_t i = 0; i < groups; ++i) {
        CHECK(seen[i].min == expected[i].min);
        CHECK(seen[i].max == expected[i].max);
      }
    }
  }
}

TEST_CASE("cuda: Hadamard codes are those of the CPU, except few between two levels") {
  struct Sample {
    Shape shape;
    std::int64_t size;
  };
  for (const Sample& one : std::vector<Sample>{{{5000}, 1024},
                                               {{3, 40, 48}, 256},
                                               {{2, 197, 32}, 1024},
                                               {{2000}, 384},
                                               {{1000}, 100},
                                               {{64}, 7},
                                               {{300}, 512}}) {
    CAPTURE(one.size);
    std::vector<float> values = normal_values(one.shape.count(), 12);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += 0.5F * static_cast<float>(i % 16);
    for (int bits = 1; bits <= 3; ++bits) {
      CAPTURE(bits);
      for (const DType dtype : {DType::f32, DType::bf16}) {
        const Tensor x = tensor(values, one.shape, dtype), x_there = x.to(Device::cuda);
        const QuantConfig config{.bits = bits, .grouping = {consecutive, one.size}, .quantizer = "hadamard"};
        const QuantizedTensor here = quant::quantize(x, config, 21);
        QuantizedTensor there = quant::quantize(x_there, config, 21);
        const std::vector<std::uint8_t> expected = bytes_of(here), got = bytes_on_cpu(there);
        std::size_t off = 0;
        for (std::size_t i = 0; i < got.size(); ++i) off += got[i] != expected[i] ? 1 : 0;
        CHECK(off <= got.size() / 200 + 2);
        in_all_orders([&] { CHECK(bytes_on_cpu(quant::quantize(x_there, config, 21)) == got); });
        there.bytes = here.bytes.to(Device::cuda);
        const std::int64_t count = one.shape.count();
        for (const auto& [begin, end] : {std::pair{std::int64_t{0}, count}, {count / 3, count / 2 + 1}}) {
          const std::vector<double> decoded = dequantized(here, begin, end);
          const Tensor out = Tensor::empty({end - begin}, dtype, Device::cuda);
          quant::dequantize(there, begin, end, out);
          const std::vector<double> values_there = out.to_vector();
          bool all = true;
          for (std::size_t i = 0; i < decoded.size(); ++i) all &= close(values_there[i], decoded[i], 30, dtype);
          CHECK(all);
        }
      }
    }
  }
}

TEST_CASE("cuda: Hadamard groups that are constant, not finite, tiny or huge quantize as on the CPU") {
  for (const float scale : {0.0F, 1e-30F, 1e30F, 1e38F, infinity}) {
    CAPTURE(scale);
    std::vector<float> values = normal_values(512, 13);
    for (float& value : values) value = scale == 0 ? 1.5F : value * scale * 0.5F;
    const Tensor x = tensor(values, {512}, DType::f32);
    const QuantConfig config{.bits = 2, .grouping = {consecutive, 256}, .quantizer = "hadamard"};
    const QuantizedTensor here = quant::quantize(x, config, 3), there = quant::quantize(x.to(Device::cuda), config, 3);
    CHECK(bytes_on_cpu(there) == bytes_of(here));
    const Tensor out = Tensor::empty({512}, DType::f32, Device::cuda);
    quant::dequantize(there, 0, 512, out);
    const std::vector<double> got = out.to_vector(), expected = dequantized(here);
    for (std::size_t i = 0; i < got.size(); ++i)
      CHECK(close(got[i], expected[i], std::isfinite(scale) ? 4.0 * static_cast<double>(scale) : 1, DType::f32));
  }
}

TEST_CASE("cuda: sign masks are those of the CPU") {
  for (const std::int64_t count : {1, 8, 1003, 5000}) {
    std::vector<float> values = normal_values(count, 6);
    values[0] = std::numeric_limits<float>::quiet_NaN();
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Tensor x = tensor(values, {count}, dtype), there = x.to(Device::cuda);
      const Tensor bits = quant::pack_signs(x), packed = quant::pack_signs(there);
      CHECK(packed.to(Device::cpu).to_vector() == bits.to_vector());
      for (const std::int64_t first : {std::int64_t{0}, count / 3}) {
        const Tensor part = x.leading(0, count - first), part_there = part.to(Device::cuda);
        const Tensor expected = Tensor::empty(part.shape(), dtype, Device::cpu),
                     got = Tensor::empty(part.shape(), dtype, Device::cuda);
        quant::pass_where_set(part, bits, first, expected);
        quant::pass_where_set(part_there, packed, first, got);
        const std::vector<double> passed = got.to_vector(), wanted = expected.to_vector();
        for (std::size_t i = 0; i < passed.size(); ++i)
          CHECK((passed[i] == wanted[i] || (std::isnan(passed[i]) && std::isnan(wanted[i]))));
        quant::rectify(part_there, packed, first, got);
        CHECK(std::isnan(got.to_vector()[0]));
      }
    }
  }
}

TEST_CASE("cuda: slopes are those of the CPU") {
  for (const std::int64_t count : {1, 5, 1003, 4096}) {
    std::vector<float> values = normal_values(count, 7);
    values.back() = std::numeric_limits<float>::quiet_NaN();
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Tensor x = tensor(values, {count}, dtype);
      const Tensor here = quant::quantize_slopes(x, quant::gelu_slopes),
                   there = quant::quantize_slopes(x.to(Device::cuda), quant::gelu_slopes);
      CHECK(there.to(Device::cpu).to_vector() == here.to_vector());
      for (const std::int64_t begin : {std::int64_t{0}, count / 2, count - 1}) {
        const Tensor expected = Tensor::empty({count - begin}, dtype, Device::cpu),
                     got = Tensor::empty({count - begin}, dtype, Device::cuda);
        quant::dequantize_slopes(here, quant::gelu_slopes, begin, count, expected);
        quant::dequantize_slopes(there, quant::gelu_slopes, begin, count, got);
        CHECK(got.to_vector() == expected.to_vector());
      }
    }
  }
}

}  // namespace lacuna
