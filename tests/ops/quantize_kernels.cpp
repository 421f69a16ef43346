// The codec's kernels by the ways that elements take through them: whole vectors and tails, whole blocks and pieces of
// them, batches of groups, stretches.
#include "core/parallel.h"
#include "core/random.h"
#include "ops/quantize/affine.h"
#include "ops/quantize/affine_kernels.h"
#include "ops/quantize/fitting.h"
#include "ops/quantize/lanes.h"
#include "tests/ops/codes_of_values.h"

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
using quant::Rounding;

constexpr std::array all_types = {DType::f32, DType::f64, DType::bf16};

Tensor drawn(std::int64_t count, DType dtype, float scale) {
  const RandomStream stream{.seed = 5, .step = 0, .site = 0};
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = scale * (2 * stream.uniform(i) - 1);
  return tensor_of(values, dtype);
}

std::vector<double> by_itself(const Tensor& x, std::int64_t begin, std::int64_t end, const QuantConfig& coding) {
  return decoded(
      quant::encode(x.reshape({x.count(), 1}).leading(begin, end).clone().reshape({end - begin}), coding, 1));
}

}  // namespace

TEST_CASE("lanes are cut to fewer bytes as numbers are") {
  std::uint64_t state = 1;
  for (int round = 0; round < 1000; ++round) {
    quant::Lanes<std::int32_t> all{};
    for (std::int64_t lane = 0; lane < quant::lanes; ++lane)
      all[lane] = static_cast<std::int32_t>(state = quant::scrambled(state));
    const auto low = quant::cut<std::uint8_t, 0>(all), third = quant::cut<std::uint8_t, 16>(all);
    const auto upper = quant::cut<std::uint16_t, 16>(all);
    for (std::int64_t lane = 0; lane < quant::lanes; ++lane) {
      REQUIRE(low[lane] == static_cast<std::uint8_t>(all[lane]));
      REQUIRE(third[lane] == static_cast<std::uint8_t>(all[lane] >> 16));
      REQUIRE(upper[lane] == static_cast<std::uint16_t>(all[lane] >> 16));
    }
  }
}

TEST_CASE("lanes: third bytes of four vectors are written one vector's behind the other's") {
  constexpr std::uint8_t untouched = 0xA5;
  std::uint64_t state = 1;
  for (int round = 0; round < 1000; ++round) {
    quant::Lanes<std::int32_t> all[4];
    for (auto& vector : all)
      for (std::int64_t lane = 0; lane < quant::lanes; ++lane)
        vector[lane] = static_cast<std::int32_t>((state = quant::scrambled(state)) & 0xffffff);
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

TEST_CASE("lanes change places with those apart from them") {
  typedef std::int16_t Halves __attribute__((vector_size(vector_bytes)));
  check_exchanged<1, quant::Lanes<float>>();
  check_exchanged<1, quant::Lanes<double>>();
  check_exchanged<1, quant::Lanes<std::int32_t>>();
  check_exchanged<1, Halves>();
}

namespace {

/// Values of which many are at an end of what a code, or the type, can hold.
template <class T>
std::vector<T> telling_values(std::int64_t count) {
  const auto as = [](double value) {
    if constexpr (is_half<T>)
      return T(static_cast<float>(value));
    else
      return static_cast<T>(value);
  };
  constexpr double most = quant::most_finite<T>, infinity = std::numeric_limits<double>::infinity(),
                   not_a_number = std::numeric_limits<double>::quiet_NaN();
  const double special[] = {not_a_number, -not_a_number, infinity, -infinity, 0.0, -0.0, most, -most, 1.0, -1.0};
  std::uint64_t state = 7;
  std::vector<T> values;
  for (std::int64_t i = 0; i < count; ++i) {
    state = quant::scrambled(state);
    values.push_back(state % 3 == 0 ? as(special[state / 3 % std::size(special)])
                                    : as(static_cast<double>(state % 4001) / 1000 - 2));
  }
  return values;
}

/// QuantizedTensor of `values` together are those of each by itself, and nothing is written behind them.
template <class C, class Lines, class T>
void check_codes(const std::vector<T>& values, std::int64_t count, Lines lines, int bits,
                 const std::vector<std::uint16_t>& draws) {
  constexpr std::uint8_t untouched = 0xA5;
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(count) + 1, untouched);
  quant::Encoder<C, Lines>(lines, bits)(values.data(), count, draws.data(), codes.data());
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint8_t code = 0;
    quant::Encoder<C, Lines>(lines.rest(i), bits)(values.data() + i, 1, draws.data() + i, &code);
    REQUIRE(codes[static_cast<std::size_t>(i)] == code);
    REQUIRE(code < 1 << bits);
  }
  REQUIRE(codes.back() == untouched);
}

template <class T>
void check_encoders() {
  constexpr std::int64_t most = 8 * quant::lanes + 3;
  const std::vector<T> values = telling_values<T>(most);
  std::vector<float> origins, factors;  // [most]
  std::vector<std::uint16_t> draws;     // [most]
  std::uint64_t state = 3;
  for (std::int64_t i = 0; i < most; ++i) {
    state = quant::scrambled(state);
    draws.push_back(i % 5 == 0 ? 0 : i % 5 == 1 ? 0xffff : static_cast<std::uint16_t>(state));
    origins.push_back(static_cast<float>(i % 7) / 4 - 1);
    factors.push_back(i % 11 == 0 ? 0.0F : 65536.0F * static_cast<float>(i % 9 + 1));
  }
  for (const int bits : {1, 4, 8})
    for (std::int64_t count = 0; count <= most; ++count) {
      check_codes<float>(values, count, quant::SameLine<float>{{-1, 65536.0F * 100}}, bits, draws);
      check_codes<float>(values, count, quant::SameLine<float>{{0.5F, 0}}, bits, draws);
      check_codes<double>(values, count, quant::SameLine<double>{{-1, 65536.0 * 100}}, bits, draws);
      check_codes<float>(values, count, quant::OwnLines{origins.data(), factors.data()}, bits, draws);
    }
}

/// `values`, in one piece, in two, and in two that are put together.
template <class T>
void check_extremes(const std::vector<T>& values) {
  using Key = quant::Key<T>;
  Key least = std::numeric_limits<Key>::max(), most = std::numeric_limits<Key>::min();
  for (const T value : values) {
    least = std::min(least, quant::key_of(value));
    most = std::max(most, quant::key_of(value));
  }
  const auto count = static_cast<std::int64_t>(values.size()), half = count / 2;
  quant::Extremes<T> one, two, first, second, none;
  one.add(values.data(), count);
  two.add(values.data(), half);
  two.add(values.data() + half, count - half);
  first.add(values.data(), half);
  second.add(values.data() + half, count - half);
  first.add(second);
  none.add(one);
  one.add(quant::Extremes<T>());
  for (const quant::Extremes<T>* extremes : {&one, &two, &first, &none}) {
    REQUIRE(extremes->least() == least);
    REQUIRE(extremes->most() == most);
  }
}

template <class T>
void check_all_extremes() {
  const std::vector<T> pool = telling_values<T>(400);
  const auto is_negative = [](T value) { return quant::key_of(value) < 0; };
  std::vector<T> negative, positive;
  for (const T value : pool) (is_negative(value) ? negative : positive).push_back(value);
  const std::size_t counts = 3 * vector_bytes / sizeof(T) + 2;
  for (std::size_t count = 0; count <= counts; ++count)
    for (const std::vector<T>* of : {&pool, &std::as_const(negative), &std::as_const(positive)})
      for (std::size_t from = 0; from + count <= of->size(); from += 37)
        check_extremes(std::vector<T>(of->begin() + static_cast<std::ptrdiff_t>(from),
                                      of->begin() + static_cast<std::ptrdiff_t>(from + count)));
  for (const T value : pool) check_extremes(std::vector<T>(counts, value));
}

}  // namespace

TEST_CASE("codes of vectors, of several at once and of what is left over, are those of elements one by one") {
  check_encoders<float>();
  check_encoders<double>();
  check_encoders<bf16>();
}

TEST_CASE("extremes are those of the keys, whatever the signs and the pieces") {
  check_all_extremes<float>();
  check_all_extremes<double>();
  check_all_extremes<bf16>();
}

TEST_CASE("draws are the same on every machine, whatever its vectors: dithered codes decode with them") {
  std::uint64_t hash = 0;
  for (const std::uint64_t key : {std::uint64_t{1}, std::uint64_t{77}, ~std::uint64_t{0}}) {
    quant::Draws draws(key, Rounding::stochastic);
    for (const std::int64_t index : {0LL, 1LL, 100LL, (1LL << 28) - 1, 1LL << 28, (1LL << 40) + 5})
      for (const std::uint16_t draw : draws.of_block(index)) hash = quant::scrambled(hash ^ draw);
  }
  CHECK(hash == 2366832781487746026U);
}

TEST_CASE("codes: rounded to the nearest, a group is coded as it is alone, wherever it lies") {
  const int before = threads();
  for (const int count : {1, 2}) {
    set_threads(count);
    for (const DType dtype : all_types)
      for (const float scale : {1.0F, 1e-36F, 1e38F})  // the outer ones are computed in f64
        for (const std::int64_t size : {1, 7, 16, 100, 128, 256, 1000, 2049, 5000}) {
          const std::int64_t elements = 20001;
          const Tensor x = drawn(elements, dtype, scale);
          for (const int bits : {1, 3, 4, 8}) {
            const QuantConfig coding{bits, {Grouping::Kind::run, size}, Rounding::nearest};
            const std::vector<double> whole = decoded(quant::encode(x, coding, 1));
            for (const std::int64_t group : {std::int64_t{0}, elements / size / 2, (elements - 1) / size}) {
              const std::int64_t begin = group * size, end = std::min(elements, begin + size);
              const std::vector<double> alone = by_itself(x, begin, end, coding);
              for (std::int64_t i = begin; i < end; ++i)
                REQUIRE(whole[static_cast<std::size_t>(i)] == alone[static_cast<std::size_t>(i - begin)]);
            }
          }
        }
  }
  set_threads(before);
}

TEST_CASE("codes: columns are coded as runs of the same ranges are") {
  for (const DType dtype : all_types)
    for (const float scale : {1.0F, 1e38F})  // the last is computed in f64
      for (const std::int64_t width : {7, 8, 16, 24, 32, 64, 100}) {
        constexpr std::int64_t rows = 90, groups = 3;
        const Tensor x = drawn(rows * groups * width, dtype, scale).reshape({rows, groups * width});
        const quant::Range range{-scale, scale};
        const std::vector<quant::Range> ranges(groups, range);
        for (const int bits : {2, 4, 8})
          for (const Rounding rounding : {Rounding::nearest, Rounding::stochastic, Rounding::dithered}) {
            std::vector<quant::Range> seen(groups), seen_by_runs(rows * groups);
            const auto columns = quant::encode(x, {bits, {Grouping::Kind::column, width}, rounding}, 3, ranges, seen);
            const auto runs = quant::encode(x.reshape({x.count()}), {bits, {Grouping::Kind::run, width}, rounding}, 3,
                                            std::vector<quant::Range>(rows * groups, range), seen_by_runs);
            REQUIRE(decoded(columns) == decoded(runs));
            for (std::size_t group = 0; group < groups; ++group) {
              quant::Range all = seen_by_runs[group];
              for (std::size_t row = 1; row < rows; ++row) {
                all.min = std::min(all.min, seen_by_runs[row * groups + group].min);
                all.max = std::max(all.max, seen_by_runs[row * groups + group].max);
              }
              CHECK(seen[group].min == all.min);
              CHECK(seen[group].max == all.max);
            }
            // Ranges that have to be found first are those of all rows.
            if (rounding == Rounding::nearest) {
              const QuantConfig coding{bits, {Grouping::Kind::column, width}, rounding};
              REQUIRE(decoded(quant::encode(x, coding, 3)) == decoded(quant::encode(x, coding, 3, seen, {})));
            }
          }
      }
}

TEST_CASE("codes: a value that is not finite takes its columns with it, however narrow, and no others") {
  for (const std::int64_t width : {8, 64})
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      constexpr std::int64_t rows = 300, groups = 3;
      Tensor x = drawn(rows * groups * width, DType::f32, 1).reshape({rows, groups * width});
      x.data<float>()[137 * groups * width + width + 3] = bad;  // in the second group
      std::vector<quant::Range> seen(groups);
      const std::vector<quant::Range> known(groups, quant::Range{-1, 1});
      const QuantConfig coding{8, {Grouping::Kind::column, width}, Rounding::dithered};
      for (const quant::QuantizedTensor& codes :
           {quant::encode(x, coding, 3), quant::encode(x, coding, 3, known, seen)}) {
        const std::vector<double> values = decoded(codes);
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

TEST_CASE("codes: groups fitted together are as each by itself, and of what was set before nothing is left") {
  constexpr float most = std::numeric_limits<float>::max();
  const std::array<quant::Range, quant::GroupBatch::most> ranges = {{{0, 0},
                                                                     {-0.0F, 0},
                                                                     {1, 1},
                                                                     {-3, -3},
                                                                     {1e-45F, 1e-45F},
                                                                     {0, 1e-45F},
                                                                     {-most, most},
                                                                     {most, most},
                                                                     {1e6F, 1e6F + 1},
                                                                     {-1e6F - 1, -1e6F},
                                                                     {-1, 1},
                                                                     {0, 6},
                                                                     {-0.17F, 5},
                                                                     {1e-36F, 2e-36F},
                                                                     {-1e38F, 0},
                                                                     {2, 3}}};
  for (int bits = 1; bits <= 8; ++bits) {
    const quant::Fitting fitting(bits);
    quant::GroupBatch batch;
    for (std::size_t i = 0; i < ranges.size(); ++i) batch.set(i, ranges[i]);
    fitting.fit(batch);
    const auto check = [&](std::size_t place, quant::Range range) {
      const quant::Stored together = batch.stored(place), alone = fitting.fit(range);
      CHECK(together.step.bits == alone.step.bits);
      CHECK(together.origin == alone.origin);
      const quant::Scale scale = quant::scale_of(together, bits);
      const quant::EncodingLine line = batch.encoding_line(place);
      const bool varies = range.min < range.max;
      CHECK(line.exact.factor == (varies ? 65536 / scale.step : 0));
      CHECK(line.exact.origin == (varies ? scale.origin : 0));
      const double largest =
          std::max(std::abs(static_cast<double>(range.min)), std::abs(static_cast<double>(range.max)));
      CHECK(line.wide == (varies && (largest > 0x1p125 || scale.step < 0x1p-110)));
    };
    for (std::size_t i = 0; i < ranges.size(); ++i) check(i, ranges[i]);
    batch.set(0, {-2, 5});
    fitting.fit(batch);
    check(0, {-2, 5});
  }
}

TEST_CASE("lanes: halves are widened as they are one by one, and rounded to the nearest") {
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
