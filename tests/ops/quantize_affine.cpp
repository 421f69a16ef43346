#include "core/ledger.h"
#include "core/parallel.h"
#include "core/random.h"
#include "ops/quantize/affine_kernels.h"
#include "ops/quantize/quantize.h"
#include "tests/ops/quantized_values.h"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace lacuna {
namespace {

using namespace test;
using quant::Grouping;
using quant::QuantConfig;
using quant::QuantizedTensor;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

/// Uniform in [min, min + range).
std::vector<float> drawn(std::int64_t count, float min = -1, float range = 2, std::uint64_t seed = 1) {
  const RandomStream stream{.seed = seed, .step = 0, .site = 0};
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = min + range * stream.uniform(i);
  return values;
}

/// Group of element i.
std::int64_t group_of(const QuantizedTensor& quantized, std::int64_t i) {
  const Grouping& grouping = quantized.config.grouping;
  return (grouping.kind == Grouping::Kind::consecutive ? i : i % quantized.shape.back()) / grouping.size;
}

/// The stored parameters of a group, read as docs/quantization.md says.
struct ScaleOfGroup {
  double step = 0, origin = 0;
};
ScaleOfGroup scale_of_group(const QuantizedTensor& quantized, std::int64_t group) {
  const std::int64_t groups = quant::group_count(quantized.shape, quantized.config.grouping);
  const std::byte* const at = quantized.bytes.raw() + quantized.bytes.bytes() - 4 * (groups - group);
  std::uint16_t step;
  std::int16_t origin;
  std::memcpy(&step, at, 2);
  std::memcpy(&origin, at + 2, 2);
  const double value = std::abs(static_cast<double>(std::bit_cast<float>(std::uint32_t{step} << 16)));
  return {value, value * origin * std::pow(2.0, quantized.config.bits - 8)};
}

/// Checks that all elements dequantize to within their steps, up to the rounding of `dtype`.
void check_error(const Tensor& x, const QuantizedTensor& quantized) {
  const std::vector<double> before = x.to_vector(), after = dequantized(quantized);
  const double rounding = x.dtype() == DType::bf16 ? 0x1p-8 : 0x1p-24;
  const double allowed = quantized.config.quantizer == "stochastic" ? 1.0001 : 0.5001;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double step = scale_of_group(quantized, group_of(quantized, static_cast<std::int64_t>(i))).step;
    const double error = std::abs(after[i] - before[i]);
    if (!(error <= allowed * step + rounding * (std::abs(before[i]) + step)))
      FAIL_CHECK("element ", i, ": ", before[i], " became ", after[i], ", step ", step, ", ", quantized.config.bits,
                 " bits");
  }
}

rc::Gen<QuantConfig> configs() {
  return rc::gen::build<QuantConfig>(
      rc::gen::set(&QuantConfig::bits, rc::gen::inRange(1, 9)),
      rc::gen::set(&QuantConfig::grouping,
                   rc::gen::build<Grouping>(rc::gen::set(&Grouping::kind, rc::gen::element(Grouping::Kind::consecutive,
                                                                                           Grouping::Kind::columns)),
                                            rc::gen::set(&Grouping::size, rc::gen::inRange<std::int64_t>(1, 600)))),
      rc::gen::set(&QuantConfig::quantizer, rc::gen::element<std::string_view>("nearest", "stochastic", "dithered")));
}

}  // namespace

TEST_CASE("quantize: every length and number of bits round-trips") {
  for (int bits = 1; bits <= 8; ++bits)
    for (std::int64_t count = 1; count <= 1030; ++count) {
      const Tensor x = tensor_of(drawn(count, -1, 3, static_cast<std::uint64_t>(count)));
      for (const std::string_view rounding : {"nearest", "stochastic", "dithered"}) {
        const QuantConfig config{bits,
                                 {Grouping::Kind::consecutive, count % 3 == 0   ? 256
                                                               : count % 3 == 1 ? 64
                                                                                : 77},
                                 rounding};
        const QuantizedTensor quantized = quant::quantize(x, config, 7);
        REQUIRE(quantized.bytes.bytes() == quant::quantized_bytes(x.shape(), config));
        check_error(x, quantized);
      }
    }
}

TEST_CASE("quantize: a step is at most 1.6 % above range / levels") {
  for (int bits = 1; bits <= 8; ++bits) {
    const std::vector<float> values = drawn(256 * 40, -1, 2);
    const QuantizedTensor quantized = quant::quantize(tensor_of(values), {.bits = bits}, 1);
    for (std::int64_t group = 0; group < 40; ++group) {
      const auto [min, max] = std::minmax_element(values.begin() + group * 256, values.begin() + (group + 1) * 256);
      const double ideal = static_cast<double>(*max - *min) / ((1 << bits) - 1);
      CHECK(scale_of_group(quantized, group).step >= ideal);
      CHECK(scale_of_group(quantized, group).step <= ideal * (bits == 1 ? 1.016 : 1.014));
      CHECK(scale_of_group(quantized, group).origin <= static_cast<double>(*min));
      CHECK(scale_of_group(quantized, group).origin >
            static_cast<double>(*min) - ideal * 1.016 * std::pow(2.0, bits - 8));
    }
  }
}

TEST_CASE("dequantize: a range equals the same range of the whole") {
  const std::vector<float> values = drawn(1000);
  for (const int bits : {8, 5, 3, 1})
    for (const Grouping grouping : {Grouping{Grouping::Kind::consecutive, 100}, Grouping{Grouping::Kind::columns, 3}}) {
      for (const std::string_view rounding : {"stochastic", "dithered"}) {
        const QuantizedTensor quantized =
            quant::quantize(tensor_of(values).reshape({40, 25}), {bits, grouping, rounding}, 3);
        const std::vector<double> whole = dequantized(quantized);
        for (std::int64_t begin = 0; begin < 1000; begin += 37)
          for (std::int64_t end = begin; end <= 1000; end += 41)
            REQUIRE(dequantized(quantized, begin, end) ==
                    std::vector<double>(whole.begin() + begin, whole.begin() + end));
      }
    }
}

TEST_CASE("block_dequantizer: the bits of dequantize, on any thread") {
  const std::vector<float> values = drawn(9000);
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const int bits : {8, 5, 1})
      for (const Grouping grouping : {Grouping{Grouping::Kind::consecutive, 100}, Grouping{Grouping::Kind::columns, 3}})
        for (const std::string_view rounding : {"nearest", "stochastic", "dithered"}) {
          const QuantizedTensor quantized =
              quant::quantize(tensor_of(values, dtype).reshape({360, 25}), {bits, grouping, rounding}, 3);
          const quant::BlockDequantizer read = quant::block_dequantizer(quantized, 150, threads());
          const std::vector<double> whole = dequantized(quantized);
          const Tensor out = Tensor::empty(quantized.shape, dtype, Device::cpu);
          parallel_tasks(13, [&](std::int64_t task, int thread) {
            const Range own = part(9000, task, 13);
            for (std::int64_t begin = own.begin; begin < own.end; begin += 150)
              read(begin, std::min(own.end, begin + 150), out.raw() + begin * size_of(dtype), thread);
          });
          CHECK(out.to_vector() == whole);
        }
}

TEST_CASE("quantize: rounding is unbiased; variance step² · f · (1 - f) stochastic, step² / 12 dithered") {
  const std::vector<float> values = drawn(256, 0.3F, 1.7F);
  const Tensor x = tensor_of(values);
  constexpr int keys = 20000;
  for (const auto& [rounding, bits] : std::vector<std::pair<std::string_view, int>>{{"stochastic", 8},
                                                                                    {"stochastic", 4},
                                                                                    {"stochastic", 2},
                                                                                    {"stochastic", 1},
                                                                                    {"dithered", 8},
                                                                                    {"dithered", 4},
                                                                                    {"dithered", 2},
                                                                                    {"dithered", 1}}) {
    std::vector<double> sums(256), squares(256);
    ScaleOfGroup group;
    for (std::uint64_t key = 0; key < keys; ++key) {
      const QuantizedTensor quantized = quant::quantize(x, {.bits = bits, .quantizer = rounding}, key);
      group = scale_of_group(quantized, 0);
      const std::vector<double> after = dequantized(quantized);
      for (std::size_t i = 0; i < 256; ++i) {
        const double error = after[i] - static_cast<double>(values[i]);
        sums[i] += error;
        squares[i] += error * error;
      }
    }
    double total = 0, total_variance = 0;
    for (std::size_t i = 0; i < 256; ++i) {
      const double place = (static_cast<double>(values[i]) - group.origin) / group.step;
      const double f = place - std::floor(place);
      const bool dithered = rounding == "dithered";
      const double variance = group.step * group.step * (dithered ? 1.0 / 12 : f * (1 - f));
      // 5.5 standard deviations for each of 1024 elements; 2^-16 steps are the resolution of the draws.
      CHECK(std::abs(sums[i] / keys) < 5.5 * std::sqrt(variance / keys) + 0x1p-16 * group.step);
      const double fourth = std::pow(group.step, 4) * (dithered ? 1.0 / 80 : f * (1 - f) * (1 - 3 * f * (1 - f)));
      CHECK(std::abs(squares[i] / keys - variance) <
            5.5 * std::sqrt((fourth - variance * variance) / keys) + 0x1p-15 * group.step * group.step);
      total += sums[i];
      total_variance += variance * keys;
    }
    CHECK(std::abs(total) < 5 * std::sqrt(total_variance));  // the draws of one key have no common bias
  }
}

TEST_CASE("quantize: draws depend on key and element index alone") {
  const std::vector<float> values(4096, 0.5F);
  const std::vector<quant::Range> ranges(16, {0, 1});
  const auto code = [&](std::uint64_t key) {
    return bytes_of(quant::quantize(tensor_of(values), {.bits = 1}, key, ranges, {}));
  };
  CHECK(code(5) == code(5));
  for (const std::uint64_t other : {std::uint64_t{6}, std::uint64_t{5} << 32, std::uint64_t{4}}) {
    const std::vector<std::uint8_t> left = code(5), right = code(other);
    int different = 0;
    for (std::size_t i = 0; i < 512; ++i) different += std::popcount(static_cast<unsigned>(left[i] ^ right[i]));
    CHECK(std::abs(different - 2048) < 5 * 32);
  }
}

TEST_CASE("quantize: dequantized values quantize to the same bytes") {
  for (int bits = 1; bits <= 8; ++bits)
    for (const float min : {0.0F, -1.0F, 5.0F, -100.0F}) {
      const Tensor x = tensor_of(drawn(1000, min, 2));
      const std::vector<quant::Range> ranges(4, {min, min + 2});
      const QuantConfig config{.bits = bits, .grouping = {}, .quantizer = "nearest"};
      const QuantizedTensor once = quant::quantize(x, config, 0, ranges, {});
      const Tensor after = Tensor::empty({1000}, DType::f32, Device::cpu);
      quant::dequantize(once, 0, 1000, after);
      CHECK(bytes_of(quant::quantize(after, config, 0, ranges, {})) == bytes_of(once));
    }
}

TEST_CASE("quantize: values outside known ranges saturate, and observed ranges are returned") {
  for (const Grouping grouping : {Grouping{Grouping::Kind::consecutive, 64}, Grouping{Grouping::Kind::columns, 8}})
    for (const std::string_view rounding : {"nearest", "stochastic", "dithered"}) {
      std::vector<float> values = drawn(512, 0, 1);
      values[3] = -1e30F;
      values[5] = 3e38F;
      const Tensor x = tensor_of(values).reshape({8, 64});
      const std::vector<quant::Range> ranges(8, {0, 1});
      std::vector<quant::Range> seen(8, {7, 7});
      const QuantizedTensor quantized = quant::quantize(x, {4, grouping, rounding}, 1, ranges, seen);
      const std::vector<double> after = dequantized(quantized);
      const double dither = rounding == "dithered" ? scale_of_group(quantized, 0).step / 2 : 0;
      CHECK(std::abs(after[3]) <= dither);
      CHECK(std::abs(after[5] - 1.0) <= 0.02 + dither);
      CHECK(seen[0].min == -1e30F);
      CHECK(seen[0].max == 3e38F);
      for (std::int64_t group = 1; group < 8; ++group) {
        float min = infinity, max = -infinity;
        for (std::int64_t i = 0; i < 512; ++i)
          if (group_of(quantized, i) == group) {
            min = std::min(min, values[static_cast<std::size_t>(i)]);
            max = std::max(max, values[static_cast<std::size_t>(i)]);
          }
        CHECK(seen[static_cast<std::size_t>(group)].min == min);
        CHECK(seen[static_cast<std::size_t>(group)].max == max);
      }
    }
}

TEST_CASE("quantize: a group with a nonfinite value dequantizes to NaN, and no other group") {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64})
    for (const Grouping grouping : {Grouping{Grouping::Kind::consecutive, 32}, Grouping{Grouping::Kind::columns, 4}})
      for (const float bad : {not_a_number, infinity, -infinity})
        for (const bool given : {false, true}) {
          std::vector<float> values = drawn(256, 0.5F, 1);
          values[70] = bad;
          const Tensor x = tensor_of(values, dtype).reshape({8, 32});
          const std::vector<quant::Range> ranges(8, {0, 2});
          std::vector<quant::Range> seen(8, {7, 7});
          const QuantConfig config{8, grouping, "nearest"};
          const QuantizedTensor quantized =
              given ? quant::quantize(x, config, 1, ranges, seen) : quant::quantize(x, config, 1);
          const std::vector<double> after = dequantized(quantized);
          for (std::int64_t i = 0; i < 256; ++i)
            CHECK(std::isnan(after[static_cast<std::size_t>(i)]) ==
                  (group_of(quantized, i) == group_of(quantized, 70)));
          if (given) {
            const quant::Range& range = seen[static_cast<std::size_t>(group_of(quantized, 70))];
            CHECK((range.min >= 0.5F && range.max <= 1.5F && range.min < range.max));
          }
        }
  std::vector<quant::Range> seen{{7, 8}};
  const std::vector<quant::Range> ranges{{0, 1}};
  quant::quantize(tensor_of({infinity, not_a_number}), {}, 1, ranges, seen);
  CHECK(seen[0].min == 7);
  CHECK(seen[0].max == 8);
}

TEST_CASE("quantize: constant groups") {
  for (int bits = 1; bits <= 8; ++bits)
    for (const float value : {0.0F, 1.0F, -1.0F, 0.1F, -0.999999F, 123456.0F, 1e-30F, -3e38F, 3.4028234e38F})
      for (const Grouping grouping : {Grouping{}, Grouping{Grouping::Kind::columns, 5}}) {
        const Tensor x = tensor_of(std::vector<float>(300, value)).reshape({30, 10});
        for (const std::string_view rounding : {"stochastic", "dithered"})
          for (const double after : dequantized(quant::quantize(x, {bits, grouping, rounding}, 9)))
            CHECK(std::abs(after - static_cast<double>(value)) <= 0x1p-15 * std::abs(static_cast<double>(value)));
      }
  // Below 2^-118, bf16 steps have fewer than 15 bits.
  for (const float value : {1e-38F, 1e-40F, -1e-44F})
    for (const double after : dequantized(quant::quantize(tensor_of({value, value}), {}, 9)))
      CHECK(std::abs(after - static_cast<double>(value)) <= 0x1p-134);
}

TEST_CASE("quantize: ranges at the limits of f32") {
  for (const float scale : {1e-45F, 1e-40F, 1e-38F, 1e-36F, 1e-34F, 1e-30F, 1e30F, 1e36F, 1e38F, 3.4e38F})
    for (const bool two_sided : {false, true})
      for (const Grouping grouping : {Grouping{}, Grouping{Grouping::Kind::columns, 100}})
        for (int bits = 1; bits <= 8; ++bits) {
          std::vector<float> values = drawn(300, two_sided ? -1.0F : 0.0F, 1);
          for (std::size_t i = 0; i < values.size(); ++i) values[i] *= (two_sided && i % 2 == 1 ? -scale : scale);
          const Tensor x = tensor_of(values).reshape({3, 100});
          const QuantizedTensor quantized = quant::quantize(x, {.bits = bits, .grouping = grouping}, 2);
          const std::vector<double> after = dequantized(quantized);
          const double range = static_cast<double>(scale) * (two_sided ? 2 : 1);
          const double step = range / ((1 << bits) - 1) * 1.02 + 0x1p-133;  // the spacing of subnormal steps
          for (std::size_t i = 0; i < values.size(); ++i) {
            REQUIRE(std::isfinite(after[i]));
            // With one bit the step would be 6.8e38, beyond f32: the upper end saturates.
            if (bits > 1 || range < 3e38) REQUIRE(std::abs(after[i] - static_cast<double>(values[i])) <= step);
          }
        }
}

TEST_CASE("dequantize: no finite bf16 becomes infinite") {
  std::vector<float> values = drawn(256);
  values[0] = 1;
  values[1] = -1;
  for (float& value : values) value *= 0x1.FEp127F;  // the largest bf16
  for (int bits = 1; bits <= 8; ++bits)
    for (std::uint64_t key = 0; key < 20; ++key) {
      const Tensor x = tensor_of(values, DType::bf16);
      for (const std::string_view rounding : {"stochastic", "dithered"})
        for (const double after : dequantized(quant::quantize(x, {.bits = bits, .quantizer = rounding}, key)))
          REQUIRE(std::isfinite(after));
    }
}

TEST_CASE("quantize: every element type") {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64})
    for (const Grouping grouping :
         {Grouping{Grouping::Kind::consecutive, 256}, Grouping{Grouping::Kind::consecutive, 100},
          Grouping{Grouping::Kind::columns, 7}, Grouping{Grouping::Kind::columns, 64}})
      for (int bits = 1; bits <= 8; ++bits)
        for (const std::string_view rounding : {"nearest", "stochastic", "dithered"}) {
          const Tensor x = tensor_of(drawn(37 * 53, -2, 5), dtype).reshape({37, 53});
          const QuantizedTensor quantized = quant::quantize(x, {bits, grouping, rounding}, 11);
          CHECK(quantized.dtype == dtype);
          check_error(x, quantized);
        }
}

TEST_CASE("quantize: longer than a packed chunk, with one thread and two") {
  const int before = threads();
  for (const int count : {1, 2}) {
    set_threads(count);
    for (const std::int64_t elements : {2047, 2048, 2049, 4096, 4097, 6000, 40000})
      for (const std::int64_t size : {100, 1000, 2049, 5000})
        for (int bits = 1; bits <= 8; ++bits) {
          const Tensor x = tensor_of(drawn(elements, -2, 5, static_cast<std::uint64_t>(elements)));
          check_error(x, quant::quantize(x, {bits, {Grouping::Kind::consecutive, size}, "dithered"}, 9));
        }
  }
  set_threads(before);
}

TEST_CASE("quantize: far from zero the step grows until the origin fits") {
  for (const float offset : {1e3F, -1e3F, 1e6F, -1e6F})
    for (int bits = 1; bits <= 8; ++bits) {
      const Tensor x = tensor_of(drawn(256, offset, 1));
      const QuantizedTensor quantized = quant::quantize(x, {.bits = bits}, 4);
      const double range = std::max(1.0, std::abs(static_cast<double>(offset)) / 127);
      CHECK(scale_of_group(quantized, 0).step <= range / ((1 << bits) - 1) * 1.02);
      check_error(x, quantized);
    }
}

TEST_CASE("quantize: the same bytes with one thread and with two") {
  const int before = threads();
  for (const Grouping grouping : {Grouping{}, Grouping{Grouping::Kind::consecutive, 1000},
                                  Grouping{Grouping::Kind::consecutive, 100000}, Grouping{Grouping::Kind::columns, 3},
                                  Grouping{Grouping::Kind::columns, 16}, Grouping{Grouping::Kind::columns, 64},
                                  Grouping{Grouping::Kind::columns, 211}, Grouping{Grouping::Kind::columns, 5000, 2}}) {
    const Tensor x = tensor_of(drawn(197 * 211)).reshape({197, 211});
    const std::vector<quant::Range> ranges(static_cast<std::size_t>(quant::group_count(x.shape(), grouping)),
                                           quant::Range{-0.5F, 0.5F});
    std::vector<quant::Range> seen_by_one = ranges, seen_by_two = ranges;
    set_threads(1);
    const QuantizedTensor one = quant::quantize(x, {3, grouping}, 8),
                          one_given = quant::quantize(x, {3, grouping}, 8, ranges, seen_by_one);
    const std::vector<double> decoded_by_one = dequantized(one);
    set_threads(2);
    const QuantizedTensor two = quant::quantize(x, {3, grouping}, 8),
                          two_given = quant::quantize(x, {3, grouping}, 8, ranges, seen_by_two);
    CHECK(bytes_of(one) == bytes_of(two));
    CHECK(bytes_of(one_given) == bytes_of(two_given));
    CHECK(decoded_by_one == dequantized(two));
    for (std::size_t i = 0; i < seen_by_one.size(); ++i) {
      REQUIRE(seen_by_one[i].min == seen_by_two[i].min);
      REQUIRE(seen_by_one[i].max == seen_by_two[i].max);
    }
  }
  set_threads(before);
}

TEST_CASE(
    "quantize: one group of all columns equals one consecutive group; a row of several axes equals their product") {
  const Tensor x = tensor_of(drawn(6 * 5 * 7 * 400)).reshape({6, 5, 7, 400});
  const QuantConfig whole{.bits = 5, .grouping = {Grouping::Kind::consecutive, x.count()}},
      columns{.bits = 5, .grouping = {Grouping::Kind::columns, 400}},
      heads{.bits = 5, .grouping = {Grouping::Kind::columns, 7 * 400, 3}},
      flat{.bits = 5, .grouping = {Grouping::Kind::columns, 7 * 400}};
  const Tensor rows = x.reshape({6, 5 * 7 * 400});
  CHECK(quant::group_count(x.shape(), heads.grouping) == 5);
  CHECK(bytes_of(quant::quantize(x, columns, 3)) == bytes_of(quant::quantize(x, whole, 3)));
  CHECK(bytes_of(quant::quantize(x, heads, 3)) == bytes_of(quant::quantize(rows, flat, 3)));
  CHECK(dequantized(quant::quantize(x, heads, 3)) == dequantized(quant::quantize(rows, flat, 3)));
  // Known ranges, with values outside.
  for (const auto& [one, other] : {std::pair(columns, whole), std::pair(heads, heads)}) {
    const auto groups = static_cast<std::size_t>(quant::group_count(x.shape(), one.grouping));
    const std::vector<quant::Range> ranges(groups, quant::Range{-0.25F, 0.25F});
    std::vector<quant::Range> seen = ranges, seen_by_other = ranges;
    CHECK(bytes_of(quant::quantize(x, one, 3, ranges, seen)) ==
          bytes_of(quant::quantize(x, other, 3, ranges, seen_by_other)));
    for (std::size_t group = 0; group < groups; ++group) {
      CHECK(seen[group].min == seen_by_other[group].min);
      CHECK(seen[group].max == seen_by_other[group].max);
      if (groups == 1) continue;
      float min = 1, max = -1;
      for (std::int64_t sample = 0; sample < 6; ++sample)
        for (std::int64_t i = 0; i < 7 * 400; ++i) {
          const float value = x.data<float>()[(sample * 5 + static_cast<std::int64_t>(group)) * 7 * 400 + i];
          min = std::min(min, value);
          max = std::max(max, value);
        }
      CHECK(seen[group].min == min);
      CHECK(seen[group].max == max);
    }
  }
}

TEST_CASE("quantize: allocates quantized_bytes with the purpose of the scope, on meta too") {
  CHECK(quant::quantized_bytes({1000}, {.bits = 8}) == 1000 + 4 * 4);
  CHECK(quant::quantized_bytes({1000}, {.bits = 3}) == 7 * 48 + 26 + 13 + 4 * 4);
  CHECK(quant::quantized_bytes({10, 100}, {2, {Grouping::Kind::columns, 64}}) == 250 + 4 * 2);
  CHECK(quant::quantized_bytes({0, 5}, {2, {Grouping::Kind::columns, 64}}) == 0);
  CHECK(quant::quantized_bytes({}, {.bits = 4}) == 1 + 4);
  for (const Device device : {Device::cpu, Device::meta}) {
    const AllocationScope scope({Purpose::saved, {}, {}});
    const Tensor x = Tensor::zeros({30, 40}, DType::f32, device);
    const std::int64_t before = at(ledger(device).live(), Purpose::saved);
    const QuantizedTensor quantized = quant::quantize(x, {5, {Grouping::Kind::columns, 8}}, 1);
    CHECK(at(ledger(device).live(), Purpose::saved) - before == quant::quantized_bytes(x.shape(), quantized.config));
    const Tensor out = Tensor::empty({10, 40}, DType::f32, device);
    quant::dequantize(quantized, 400, 800, out);
  }
}

TEST_CASE("quantize: invalid configurations, ranges and outputs are errors") {
  const Tensor x = tensor_of({1, 2, 3});
  CHECK_THROWS_AS(quant::quantize(x, {.bits = 0}, 1), Error);
  CHECK_THROWS_AS(quant::quantize(x, {.bits = 9}, 1), Error);
  CHECK_THROWS_AS(quant::quantize(x, {.bits = 8, .grouping = {Grouping::Kind::consecutive, 0}}, 1), Error);
  CHECK_THROWS_AS(quant::quantize(Tensor::zeros({3}, DType::i32, Device::cpu), {}, 1), Error);
  const std::vector<quant::Range> two(2), infinite{{0, infinity}}, reversed{{1, 0}};
  CHECK_THROWS_AS(quant::quantize(x, {}, 1, two, {}), Error);
  CHECK_THROWS_AS(quant::quantize(x, {}, 1, infinite, {}), Error);
  CHECK_THROWS_AS(quant::quantize(x, {}, 1, reversed, {}), Error);
  const QuantizedTensor quantized = quant::quantize(x, {}, 1);
  CHECK_THROWS_AS(quant::dequantize(quantized, 0, 4, Tensor::empty({4}, DType::f32, Device::cpu)), Error);
  CHECK_THROWS_AS(quant::dequantize(quantized, 0, 3, Tensor::empty({2}, DType::f32, Device::cpu)), Error);
  CHECK_THROWS_AS(quant::dequantize(quantized, 0, 3, Tensor::empty({3}, DType::bf16, Device::cpu)), Error);
}

TEST_CASE("quantize: the draws of a block are uniform and pairwise independent") {
  constexpr std::uint64_t keys = 4096;
  std::vector<std::array<double, quant::block>> drawn(keys);
  std::array<double, quant::block> mean{};
  for (std::uint64_t key = 0; key < keys; ++key) {
    quant::Draws source(key, quant::Rounding::stochastic);
    const std::array<std::uint16_t, quant::block>& draws = source.of_block(3);
    for (std::size_t i = 0; i < draws.size(); ++i) {
      drawn[key][i] = draws[i] / 65536.0 - 0.5;
      mean[i] += drawn[key][i] / keys;
    }
  }
  const double error = 1 / std::sqrt(12.0 * keys);  // of a mean
  double worst = 0;
  for (std::size_t i = 0; i < quant::block; ++i) {
    CHECK(std::abs(mean[i]) < 5 * error);
    for (std::size_t j = 0; j <= i; ++j) {
      double product = 0;
      for (const auto& draws : drawn) product += draws[i] * draws[j] / keys;
      if (i == j)
        CHECK(product == doctest::Approx(1 / 12.0).epsilon(0.08));
      else
        worst = std::max(worst, std::abs(product));
    }
  }
  CHECK(worst < 5.5 / 12 / std::sqrt(static_cast<double>(keys)));  // of 8128 pairs
}

TEST_CASE("quantize: properties of arbitrary tensors") {
  // Arbitrary bit patterns: subnormal numbers, infinities and NaN among them.
  CHECK(rc::check("finite groups are within a step, others NaN, ranges equal the whole", [] {
    const auto rows = *rc::gen::inRange<std::int64_t>(1, 8), columns = *rc::gen::inRange<std::int64_t>(1, 300);
    const QuantConfig config = *configs();
    const auto key = *rc::gen::arbitrary<std::uint64_t>();
    const auto kind = *rc::gen::inRange(0, 3);
    const RandomStream stream{.seed = *rc::gen::arbitrary<std::uint64_t>(), .step = 0, .site = 0};
    std::vector<float> values(static_cast<std::size_t>(rows * columns));
    const float scale = std::ldexp(1.0F, *rc::gen::inRange(-140, 120)), shift = *rc::gen::element(0.0F, 1.0F, -30.0F);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = kind == 0 ? std::bit_cast<float>(stream.bits(i)) : scale * (stream.uniform(i) + shift);
    if (kind == 1) values[stream.below(1, static_cast<std::uint32_t>(values.size()))] = infinity;
    const QuantizedTensor quantized = quant::quantize(tensor_of(values).reshape({rows, columns}), config, key);
    RC_ASSERT(quantized.bytes.bytes() == quant::quantized_bytes(quantized.shape, config));
    const std::vector<double> after = dequantized(quantized);

    std::vector<bool> finite(static_cast<std::size_t>(quant::group_count(quantized.shape, config.grouping)), true);
    for (std::int64_t i = 0; i < rows * columns; ++i)
      if (!std::isfinite(values[static_cast<std::size_t>(i)]))
        finite[static_cast<std::size_t>(group_of(quantized, i))] = false;
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      const std::int64_t group = group_of(quantized, i);
      const double before = static_cast<double>(values[static_cast<std::size_t>(i)]),
                   now = after[static_cast<std::size_t>(i)];
      if (!finite[static_cast<std::size_t>(group)]) {
        RC_ASSERT(std::isnan(now));
        continue;
      }
      const double step = scale_of_group(quantized, group).step;
      const double allowed = (config.quantizer == "stochastic" ? 1.0001 : 0.5001) * step + 0x1p-23 * std::abs(before);
      // One bit cannot span the range of f32.
      RC_ASSERT((std::abs(now - before) <= allowed || (config.bits == 1 && step > 3e38)));
    }
    const auto begin = *rc::gen::inRange<std::int64_t>(0, rows * columns),
               end = *rc::gen::inRange(begin, rows * columns);
    const std::vector<double> part = dequantized(quantized, begin, end);
    for (std::size_t i = 0; i < part.size(); ++i) {
      const double whole = after[static_cast<std::size_t>(begin) + i];
      RC_ASSERT((part[i] == whole || (std::isnan(part[i]) && std::isnan(whole))));
    }
  }));
  CHECK(rc::check("known ranges equal to the observed ones give the same bytes", [] {
    const auto rows = *rc::gen::inRange<std::int64_t>(1, 8), columns = *rc::gen::inRange<std::int64_t>(1, 300);
    const QuantConfig config = *configs();
    const Tensor x =
        tensor_of(drawn(rows * columns, -1, 3, *rc::gen::arbitrary<std::uint64_t>())).reshape({rows, columns});
    const std::vector<quant::Range> wide(static_cast<std::size_t>(quant::group_count(x.shape(), config.grouping)),
                                         {-5, 5});
    std::vector<quant::Range> seen(wide.size());
    quant::quantize(x, config, 1, wide, seen);
    RC_ASSERT(bytes_of(quant::quantize(x, config, 1, seen, {})) == bytes_of(quant::quantize(x, config, 1)));
  }));
}

}  // namespace lacuna
