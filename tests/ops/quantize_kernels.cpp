// Kernels of quantization by code path: whole vectors and tails, whole and partial blocks, batches of groups.
#include "core/parallel.h"
#include "core/random.h"
#include "ops/quantize/affine_kernels.h"
#include "ops/quantize/group_params.h"
#include "ops/quantize/quantize.h"
#include "ops/quantize/simd.h"
#include "tests/ops/quantized_values.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

namespace lacuna {
namespace {

using namespace test;
using quant::Grouping;
using quant::QuantConfig;

constexpr std::array all_types = {DType::f32, DType::f64, DType::bf16};

Tensor drawn(std::int64_t count, DType dtype, float scale) {
  const RandomStream stream{.seed = 5, .step = 0, .site = 0};
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = scale * (2 * stream.uniform(i) - 1);
  return tensor_of(values, dtype);
}

std::vector<double> by_itself(const Tensor& x, std::int64_t begin, std::int64_t end, const QuantConfig& config) {
  return dequantized(
      quant::quantize(x.reshape({x.count(), 1}).leading(begin, end).clone().reshape({end - begin}), config, 1));
}

}  // namespace

TEST_CASE("simd: lanes are truncated as scalars are") {
  std::uint64_t state = 1;
  for (int round = 0; round < 1000; ++round) {
    quant::Lanes<std::int32_t> all{};
    for (std::int64_t lane = 0; lane < quant::lanes; ++lane)
      all[lane] = static_cast<std::int32_t>(state = quant::splitmix64(state));
    const auto low = quant::cut<std::uint8_t, 0>(all), third = quant::cut<std::uint8_t, 16>(all);
    const auto upper = quant::cut<std::uint16_t, 16>(all);
    for (std::int64_t lane = 0; lane < quant::lanes; ++lane) {
      REQUIRE(low[lane] == static_cast<std::uint8_t>(all[lane]));
      REQUIRE(third[lane] == static_cast<std::uint8_t>(all[lane] >> 16));
      REQUIRE(upper[lane] == static_cast<std::uint16_t>(all[lane] >> 16));
    }
  }
}

TEST_CASE("simd: third bytes of four vectors are stored one vector behind the other") {
  constexpr std::uint8_t untouched = 0xA5;
  std::uint64_t state = 1;
  for (int round = 0; round < 1000; ++round) {
    quant::Lanes<std::int32_t> all[4];
    for (auto& vector : all)
      for (std::int64_t lane = 0; lane < quant::lanes; ++lane)
        vector[lane] = static_cast<std::int32_t>((state = quant::splitmix64(state)) & 0xffffff);
    all[round % 4][round % quant::lanes] = 0xffffff;
    all[(round + 1) % 4][0] = 0;
    std::vector<std::uint8_t> to(4 * quant::lanes + 2, untouched);
    quant::store_third_bytes(all, to.data() + 1);
    for (std::int64_t i = 0; i < 4 * quant::lanes; ++i)
      REQUIRE(to[static_cast<std::size_t>(i) + 1] == all[i / quant::lanes][i % quant::lanes] >> 16);
    REQUIRE(to.front() == untouched);
    REQUIRE(to.back() == untouched);
  }
}

namespace {

template <std::size_t by, class Vector>
void check_exchanged() {
  constexpr std::size_t count = sizeof(Vector) / sizeof(Vector{}[0]);
  Vector all{};
  for (std::size_t i = 0; i < count; ++i) all[i] = static_cast<std::remove_reference_t<decltype(all[0])>>(i);
  const Vector after = quant::exchanged<by>(all);
  for (std::size_t i = 0; i < count; ++i)
    CHECK(static_cast<std::size_t>(after[i]) == (i / by % 2 == 0 ? i + by : i - by));
  if constexpr (2 * by < count) check_exchanged<2 * by, Vector>();
}

}  // namespace

TEST_CASE("simd: lanes are exchanged at every distance") {
  typedef std::int16_t Halves __attribute__((vector_size(vector_bytes)));
  check_exchanged<1, quant::Lanes<float>>();
  check_exchanged<1, quant::Lanes<double>>();
  check_exchanged<1, quant::Lanes<std::int32_t>>();
  check_exchanged<1, Halves>();
}

namespace {

/// Values, many of them at the limits of quantized or of the type.
template <class T>
std::vector<T> telling_values(std::int64_t count) {
  const auto as = [](double value) {
    if constexpr (is_half<T>)
      return T(static_cast<float>(value));
    else
      return static_cast<T>(value);
  };
  constexpr double max = quant::max_finite<T>, infinity = std::numeric_limits<double>::infinity(),
                   not_a_number = std::numeric_limits<double>::quiet_NaN();
  const double special[] = {not_a_number, -not_a_number, infinity, -infinity, 0.0, -0.0, max, -max, 1.0, -1.0};
  std::uint64_t state = 7;
  std::vector<T> values;
  for (std::int64_t i = 0; i < count; ++i) {
    state = quant::splitmix64(state);
    values.push_back(state % 3 == 0 ? as(special[state / 3 % std::size(special)])
                                    : as(static_cast<double>(state % 4001) / 1000 - 2));
  }
  return values;
}

/// Codes of `values` together equal those of each alone, and nothing is written behind them.
template <class Lines, class T>
void check_codes(const std::vector<T>& values, std::int64_t count, Lines lines, int bits,
                 const std::vector<std::uint16_t>& draws) {
  constexpr std::uint8_t untouched = 0xA5;
  std::vector<std::uint8_t> quantized(static_cast<std::size_t>(count) + 1, untouched);
  quant::Encoder<Lines>(lines, bits)(values.data(), count, draws.data(), quantized.data());
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint8_t code = 0;
    quant::Encoder<Lines>(lines.rest(i), bits)(values.data() + i, 1, draws.data() + i, &code);
    REQUIRE(quantized[static_cast<std::size_t>(i)] == code);
    REQUIRE(code < 1 << bits);
  }
  REQUIRE(quantized.back() == untouched);
}

template <class T>
void check_encoders() {
  constexpr std::int64_t max = 8 * quant::lanes + 3;
  const std::vector<T> values = telling_values<T>(max);
  std::vector<float> origins, factors;  // [max]
  std::vector<std::uint16_t> draws;     // [max]
  std::uint64_t state = 3;
  for (std::int64_t i = 0; i < max; ++i) {
    state = quant::splitmix64(state);
    draws.push_back(i % 5 == 0 ? 0 : i % 5 == 1 ? 0xffff : static_cast<std::uint16_t>(state));
    origins.push_back(static_cast<float>(i % 7) / 4 - 1);
    factors.push_back(i % 11 == 0 ? 0.0F : 65536.0F * static_cast<float>(i % 9 + 1));
  }
  for (const int bits : {1, 4, 8})
    for (std::int64_t count = 0; count <= max; ++count) {
      check_codes(values, count, quant::SharedLine{{-1, 65536.0F * 100}}, bits, draws);
      check_codes(values, count, quant::SharedLine{{0.5F, 0}}, bits, draws);
      check_codes(values, count, quant::ScaledLine{{{-1, 65536.0F * 100}}, 0x1p-64F}, bits, draws);
      check_codes(values, count, quant::ElementLines{origins.data(), factors.data()}, bits, draws);
    }
}

/// Minimum and maximum of `values` in one piece, in two, and of two objects combined.
template <class T>
void check_min_max(const std::vector<T>& values) {
  using Key = quant::Key<T>;
  Key min = std::numeric_limits<Key>::max(), max = std::numeric_limits<Key>::min();
  for (const T value : values) {
    min = std::min(min, quant::key_of(value));
    max = std::max(max, quant::key_of(value));
  }
  const auto count = static_cast<std::int64_t>(values.size()), half = count / 2;
  quant::MinMax<T> one, two, first, second, none;
  one.add(values.data(), count);
  two.add(values.data(), half);
  two.add(values.data() + half, count - half);
  first.add(values.data(), half);
  second.add(values.data() + half, count - half);
  first.add(second);
  none.add(one);
  one.add(quant::MinMax<T>());
  for (const quant::MinMax<T>* min_max : {&one, &two, &first, &none}) {
    REQUIRE(min_max->min() == min);
    REQUIRE(min_max->max() == max);
  }
}

template <class T>
void check_all_min_max() {
  const std::vector<T> pool = telling_values<T>(400);
  const auto is_negative = [](T value) { return quant::key_of(value) < 0; };
  std::vector<T> negative, positive;
  for (const T value : pool) (is_negative(value) ? negative : positive).push_back(value);
  const std::size_t counts = 3 * vector_bytes / sizeof(T) + 2;
  for (std::size_t count = 0; count <= counts; ++count)
    for (const std::vector<T>* of : {&pool, &std::as_const(negative), &std::as_const(positive)})
      for (std::size_t from = 0; from + count <= of->size(); from += 37)
        check_min_max(std::vector<T>(of->begin() + static_cast<std::ptrdiff_t>(from),
                                     of->begin() + static_cast<std::ptrdiff_t>(from + count)));
  for (const T value : pool) check_min_max(std::vector<T>(counts, value));
}

}  // namespace

TEST_CASE("encoder: vectors, several at once, and tails give the quantized of single elements") {
  check_encoders<float>();
  check_encoders<double>();
  check_encoders<bf16>();
}

TEST_CASE("min_max: equals minimum and maximum over keys, whatever the signs and pieces") {
  check_all_min_max<float>();
  check_all_min_max<double>();
  check_all_min_max<bf16>();
}

TEST_CASE("draws: the same for every vector width, since dithered tensors are dequantized with them") {
  std::uint64_t hash = 0;
  for (const std::uint64_t key : {std::uint64_t{1}, std::uint64_t{77}, ~std::uint64_t{0}}) {
    quant::Draws draws(key, quant::Rounding::stochastic);
    for (const std::int64_t index : {0LL, 1LL, 100LL, (1LL << 28) - 1, 1LL << 28, (1LL << 40) + 5})
      for (const std::uint16_t draw : draws.of_block(index)) hash = quant::splitmix64(hash ^ draw);
  }
  CHECK(hash == 2366832781487746026U);
}

TEST_CASE("quantize: a group rounded to nearest has the same quantized as alone, wherever it lies") {
  const int before = threads();
  for (const int count : {1, 2}) {
    set_threads(count);
    for (const DType dtype : all_types)
      for (const float scale : {1.0F, 1e-36F, 1e38F})  // the outer ones are encoded in f64
        for (const std::int64_t size : {1, 7, 16, 100, 128, 256, 1000, 2049, 5000}) {
          const std::int64_t elements = 20001;
          const Tensor x = drawn(elements, dtype, scale);
          for (const int bits : {1, 3, 4, 8}) {
            const QuantConfig config{bits, {Grouping::Kind::consecutive, size}, "nearest"};
            const std::vector<double> whole = dequantized(quant::quantize(x, config, 1));
            for (const std::int64_t group : {std::int64_t{0}, elements / size / 2, (elements - 1) / size}) {
              const std::int64_t begin = group * size, end = std::min(elements, begin + size);
              const std::vector<double> alone = by_itself(x, begin, end, config);
              for (std::int64_t i = begin; i < end; ++i)
                REQUIRE(whole[static_cast<std::size_t>(i)] == alone[static_cast<std::size_t>(i - begin)]);
            }
          }
        }
  }
  set_threads(before);
}

TEST_CASE("quantize: column groups equal consecutive groups of the same ranges") {
  for (const DType dtype : all_types)
    for (const float scale : {1.0F, 1e38F})  // the last is encoded in f64
      for (const std::int64_t width : {7, 8, 16, 24, 32, 64, 100}) {
        constexpr std::int64_t rows = 90, groups = 3;
        const Tensor x = drawn(rows * groups * width, dtype, scale).reshape({rows, groups * width});
        const quant::Range range{-scale, scale};
        const std::vector<quant::Range> ranges(groups, range);
        for (const int bits : {2, 4, 8})
          for (const std::string_view rounding : {"nearest", "stochastic", "dithered"}) {
            std::vector<quant::Range> seen(groups), seen_by_runs(rows * groups);
            const auto columns =
                quant::quantize(x, {bits, {Grouping::Kind::columns, width}, rounding}, 3, ranges, seen);
            const auto runs =
                quant::quantize(x.reshape({x.count()}), {bits, {Grouping::Kind::consecutive, width}, rounding}, 3,
                                std::vector<quant::Range>(rows * groups, range), seen_by_runs);
            REQUIRE(dequantized(columns) == dequantized(runs));
            for (std::size_t group = 0; group < groups; ++group) {
              quant::Range all = seen_by_runs[group];
              for (std::size_t row = 1; row < rows; ++row) {
                all.min = std::min(all.min, seen_by_runs[row * groups + group].min);
                all.max = std::max(all.max, seen_by_runs[row * groups + group].max);
              }
              CHECK(seen[group].min == all.min);
              CHECK(seen[group].max == all.max);
            }
            // Observed ranges are over all rows.
            if (rounding == "nearest") {
              const QuantConfig config{bits, {Grouping::Kind::columns, width}, rounding};
              REQUIRE(dequantized(quant::quantize(x, config, 3)) ==
                      dequantized(quant::quantize(x, config, 3, seen, {})));
            }
          }
      }
}

TEST_CASE("quantize: a nonfinite value makes its column group NaN, however narrow, and no other") {
  for (const std::int64_t width : {8, 64})
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      constexpr std::int64_t rows = 300, groups = 3;
      Tensor x = drawn(rows * groups * width, DType::f32, 1).reshape({rows, groups * width});
      x.data<float>()[137 * groups * width + width + 3] = bad;  // in the second group
      std::vector<quant::Range> seen(groups);
      const std::vector<quant::Range> known(groups, quant::Range{-1, 1});
      const QuantConfig config{8, {Grouping::Kind::columns, width}, "dithered"};
      for (const quant::QuantizedTensor& quantized :
           {quant::quantize(x, config, 3), quant::quantize(x, config, 3, known, seen)}) {
        const std::vector<double> values = dequantized(quantized);
        for (std::int64_t i = 0; i < x.count(); ++i) {
          const bool lost = i % (groups * width) / width == 1;
          REQUIRE(std::isnan(values[static_cast<std::size_t>(i)]) == lost);
          if (!lost)
            REQUIRE(std::abs(values[static_cast<std::size_t>(i)] - static_cast<double>(x.data<float>()[i])) < 0.005);
        }
      }
      for (const quant::Range& range : seen) CHECK((-1 <= range.min && range.min < range.max && range.max <= 1));
    }
}

TEST_CASE("group parameters: groups fitted together equal each alone, whatever was set before") {
  constexpr float max = std::numeric_limits<float>::max();
  const std::array<quant::Range, quant::GroupBatch::max_groups> ranges = {{{0, 0},
                                                                           {-0.0F, 0},
                                                                           {1, 1},
                                                                           {-3, -3},
                                                                           {1e-45F, 1e-45F},
                                                                           {0, 1e-45F},
                                                                           {-max, max},
                                                                           {max, max},
                                                                           {1e6F, 1e6F + 1},
                                                                           {-1e6F - 1, -1e6F},
                                                                           {-1, 1},
                                                                           {0, 6},
                                                                           {-0.17F, 5},
                                                                           {1e-36F, 2e-36F},
                                                                           {-1e38F, 0},
                                                                           {2, 3}}};
  for (int bits = 1; bits <= 8; ++bits) {
    const quant::ParamFitter fitting(bits);
    quant::GroupBatch batch;
    for (std::size_t i = 0; i < ranges.size(); ++i) batch.set(i, ranges[i]);
    fitting.fit(batch);
    const auto check = [&](std::size_t place, quant::Range range) {
      const quant::GroupParams together = batch.params(place), alone = fitting.fit(range);
      CHECK(together.step.bits == alone.step.bits);
      CHECK(together.origin == alone.origin);
      const quant::Scale scale = quant::scale_of(together, bits);
      const quant::EncodingLine line = batch.encoding_line(place);
      const bool varies = range.min < range.max;
      const auto by = static_cast<double>(line.scale);
      CHECK(line.factor == (varies ? static_cast<float>(65536 / (scale.step * by)) : 0));
      CHECK(static_cast<double>(line.origin) == (varies ? scale.origin * by : 0));
      CHECK(std::isfinite(line.factor * (range.max * line.scale - range.min * line.scale)));
      if (!varies) return;
      const double low = static_cast<double>(range.min) - scale.origin;
      CHECK(low >= 0);
      CHECK(low < scale.step * static_cast<double>(quant::origin_unit(bits)));
      const double high = static_cast<double>(range.max) - scale.origin;  // within the codes, but for a rounding
      if (scale.step < 0x1.fcp127) CHECK(high * (1 - 0x1p-23) <= scale.step * ((1 << bits) - 1));
    };
    for (std::size_t i = 0; i < ranges.size(); ++i) check(i, ranges[i]);
    batch.set(0, {-2, 5});
    fitting.fit(batch);
    check(0, {-2, 5});
  }
}

TEST_CASE("simd: bf16 is widened and rounded as single elements are") {
  for (std::uint32_t first = 0; first < 0x10000; first += quant::lanes) {
    std::array<bf16, quant::lanes> brain;
    for (std::uint32_t i = 0; i < quant::lanes; ++i) brain[i].bits = static_cast<std::uint16_t>(first + i);
    const auto of_brain = quant::load_as<float>(brain.data());
    for (std::size_t i = 0; i < quant::lanes; ++i)
      REQUIRE(std::bit_cast<std::uint32_t>(static_cast<float>(of_brain[i])) ==
              std::bit_cast<std::uint32_t>(static_cast<float>(brain[i])));
    if (std::isnan(static_cast<float>(brain[0])) || std::isinf(static_cast<float>(brain[0]))) continue;
    for (const std::uint32_t rest : {0x0001U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      quant::Lanes<float> values;
      for (std::size_t i = 0; i < quant::lanes; ++i)
        values[i] = std::bit_cast<float>(std::uint32_t{brain[i].bits} << 16 | rest);
      std::array<bf16, quant::lanes> rounded;
      quant::store_as(values, rounded.data());
      for (std::size_t i = 0; i < quant::lanes; ++i) REQUIRE(rounded[i].bits == bf16(values[i]).bits);
    }
  }
}

}  // namespace lacuna
