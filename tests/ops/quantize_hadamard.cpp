// Quantization after a randomized Hadamard transform: its error, and that it is unbiased.
#include "core/parallel.h"
#include "ops/quantize/hadamard_quantize.h"
#include "ops/quantize/hadamard_transform.h"
#include "ops/quantize/quantize.h"
#include "tests/ops/quantized_values.h"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace lacuna {
namespace {

using namespace test;
using quant::QuantConfig;
using quant::QuantizedTensor;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

/// Squared error relative to the variance, of standard normal values in 1 to 3 bits: d / (1 - d) of Max's d (1960).
constexpr std::array theory{0.0, 0.5708, 0.1348, 0.0389};
/// Bound on the error of a group of `elements` normal values in one draw, relative to theory. The mean is at most one.
/// The standard deviation, from a million draws, is `deviation` / sqrt(elements). One saturated value gives short
/// groups a long tail, which weighs more the smaller the theoretical error is.
double max_error(int bits, double elements) {
  constexpr std::array deviation{0.0, 1.5, 1.8, 2.5};
  const auto at = static_cast<std::size_t>(bits);
  return 1 + 10 * deviation[at] / std::sqrt(elements) + 6.2 / (theory[at] * elements);
}
/// The same for the mean of `draws` draws. Part of the error is the same in all draws: two equal values among zeros
/// transform to half zeros whatever the signs, and have 1 / 0.5708 of the theoretical error at 1 bit.
double max_mean_error(int draws, int bits, double elements) {
  return std::clamp(max_error(bits, draws * elements), 2.0, 2.5);
}

/// Lower bound on the number of independent values of a transformed group: all, or (Σ x²)² / Σ x⁴ if that is less, as
/// with few large values: k equal values at every (n / k)-th position transform to k values, n / k times each.
/// `normal`: values are drawn independently, so that the kurtosis of 3 of normal values does not indicate few.
double effective_elements(const std::vector<double>& values, bool normal) {
  double squares = 0, fourths = 0;
  for (const double value : values) {
    squares += value * value;
    fourths += std::pow(value, 4);
  }
  const auto count = static_cast<double>(values.size());
  return fourths == 0 ? count : std::min(count, (normal ? 3 : 1) * squares * squares / fourths);
}

QuantConfig hadamard(int bits, std::int64_t size = 256) {
  return {.bits = bits, .grouping = {.size = size}, .quantizer = "hadamard"};
}

/// Sums over a group: squares of the centred values, squares of the errors, and products of both.
struct Sums {
  double square = 0, error = 0, product = 0;
};
Sums sums(const std::vector<float>& values, const std::vector<double>& after, std::size_t begin, std::size_t end) {
  double mean = 0;
  for (std::size_t i = begin; i < end; ++i) mean += static_cast<double>(values[i]) / static_cast<double>(end - begin);
  Sums sums;
  for (std::size_t i = begin; i < end; ++i) {
    const double value = static_cast<double>(values[i]), error = after[i] - value;
    sums.square += (value - mean) * (value - mean);
    sums.error += error * error;
    sums.product += error * (value - mean);
  }
  return sums;
}

template <quant::Passes order, class C>
void check_transform() {
  const auto transform = [](const std::vector<C>& values) {
    const auto count = static_cast<std::int64_t>(values.size());
    std::vector<C> from(static_cast<std::size_t>(quant::whole_vectors(count))), to = from, scratch = from;
    std::ranges::copy(values, from.begin());
    quant::hadamard_transform<order>(
        count, scratch.data(), [all = from.data()](std::int64_t i, C factor) { return quant::load(all + i) * factor; },
        [all = to.data()](int, std::int64_t i, const quant::Lanes<C>& some) { quant::store<C>(some, all + i); });
    to.resize(values.size());
    return to;
  };
  // The same by definition: butterflies over the longest of 2^k up to 1024 and 3 · 2^k up to 768; for other lengths at
  // the beginning, at the end, and at the beginning again.
  const auto defined = [](std::vector<double> values) {
    const std::size_t power = std::min<std::size_t>(std::bit_floor(values.size()), 1024);
    const bool thirds = power >= 2 && power <= 512 && power / 2 * 3 <= values.size();
    const std::size_t length = thirds ? power / 2 * 3 : power, part = thirds ? power / 2 : power;
    const std::size_t rest = values.size() - length;
    for (const std::size_t at : rest > 0 ? std::vector{std::size_t{0}, rest, std::size_t{0}} : std::vector{rest}) {
      double* const own = values.data() + at;
      for (std::size_t by = 1; by < part; by *= 2)
        for (std::size_t i = 0; i < length; ++i)
          if ((i % part & by) == 0) {
            const double other = own[i + by];
            own[i + by] = own[i] - other;
            own[i] += other;
          }
      for (std::size_t i = 0; i < length; ++i) own[i] /= std::sqrt(static_cast<double>(part));
      for (std::size_t i = 0; i < part && thirds; ++i) {
        const double sum = (own[i] + own[i + part] + own[i + 2 * part]) * 2 / 3;
        for (std::size_t j = i; j < length; j += part) own[j] = sum - own[j];
      }
    }
    return values;
  };
  const C rounding = std::is_same_v<C, float> ? C(1e-5) : C(1e-14);
  for (std::int64_t count = 1; count <= 1030; ++count) {
    const std::vector<float> normal = normal_values(count, static_cast<std::uint64_t>(count));
    const std::vector<C> values(normal.begin(), normal.end()), transformed = transform(values);
    const double length = std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
    CHECK(std::inner_product(transformed.begin(), transformed.end(), transformed.begin(), 0.0) ==
          doctest::Approx(length).epsilon(1e-5));
    const std::vector<C> again = transform(transformed);
    for (std::size_t i = 0; i < values.size(); ++i) REQUIRE(std::abs(again[i] - values[i]) < rounding);
    const std::vector<double> by_definition = defined({normal.begin(), normal.end()});
    for (std::size_t i = 0; i < values.size(); ++i)
      REQUIRE(std::abs(static_cast<double>(transformed[i]) - by_definition[i]) < static_cast<double>(rounding));
  }
  // A single value is spread over all.
  for (const std::int64_t count : {64, 192, 256, 384, 768, 1024}) {
    std::vector<C> one(static_cast<std::size_t>(count));
    one[static_cast<std::size_t>(count / 3)] = 1;
    const bool thirds = count % 3 == 0;
    for (const C value : transform(one))
      CHECK(std::abs(value) <= (thirds ? 2 / std::sqrt(C(3)) : C(1)) / std::sqrt(static_cast<C>(count)) + C(1e-6));
  }
}

}  // namespace

TEST_CASE_TEMPLATE("hadamard: the transform matches its definition, is orthogonal, and is its own inverse", C, float,
                   double) {
  check_transform<quant::Passes::reads_in_order, C>();
  check_transform<quant::Passes::writes_in_order, C>();
}

TEST_CASE("hadamard: every length and number of bits; the error is orthogonal to the group") {
  for (int bits = 1; bits <= 3; ++bits) {
    double worst = 0;
    for (std::int64_t count = 1; count <= 1030; ++count) {
      const std::int64_t size = count % 3 == 0 ? 256 : count % 3 == 1 ? 64 : 192;
      const std::vector<float> values = normal_values(count, static_cast<std::uint64_t>(count));
      const QuantizedTensor quantized = quant::quantize(tensor_of(values), hadamard(bits, size), 7);
      REQUIRE(quantized.bytes.bytes() == quant::quantized_bytes(quantized.shape, quantized.config));
      const std::vector<double> after = dequantized(quantized);
      for (std::int64_t begin = 0; begin < count; begin += size) {
        const std::int64_t end = std::min(count, begin + size);
        const Sums group = sums(values, after, static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
        // Step and mean are rounded to bf16.
        CHECK(std::abs(group.product) <= 0x1p-7 * (group.square + 0x1p-9));
        const double ratio = group.error / (theory[static_cast<std::size_t>(bits)] * group.square);
        if (end - begin >= 64) worst = std::max(worst, ratio);
      }
    }
    // The worst of 1800 groups: more values than usual saturate.
    CHECK(worst < (bits == 1 ? 1.9 : bits == 2 ? 2.2 : 3.2));
  }
}

TEST_CASE("hadamard: the error is the theoretical one whatever the distribution") {
  // Normal values; their ReLU; exponential values of either sign; normal values with one in a hundred ten times as
  // large.
  std::vector<std::vector<float>> kinds(4, normal_values(256 * 100, 3));
  const RandomStream stream{.seed = 9, .step = 0, .site = 1};
  for (std::size_t i = 0; i < kinds[0].size(); ++i) {
    kinds[1][i] = std::max(kinds[1][i], 0.0F);
    kinds[2][i] = std::copysign(std::log(1 - stream.uniform(i)), kinds[2][i]);
    if (i % 100 == 17) kinds[3][i] *= 10;
  }
  for (int bits = 1; bits <= 3; ++bits)
    for (const std::vector<float>& values : kinds)
      for (const std::int64_t size : {64, 192, 256, 1024}) {
        const QuantizedTensor quantized = quant::quantize(tensor_of(values), hadamard(bits, size), 5);
        const std::vector<double> after = dequantized(quantized);
        Sums all;
        for (std::size_t begin = 0; begin < values.size(); begin += static_cast<std::size_t>(size)) {
          const Sums group =
              sums(values, after, begin, std::min(values.size(), begin + static_cast<std::size_t>(size)));
          all.square += group.square;
          all.error += group.error;
        }
        const double expected = theory[static_cast<std::size_t>(bits)];
        // Few large values transform to a distribution with two peaks, which has a smaller error than a normal one.
        CHECK(all.error / all.square > 0.65 * expected);
        CHECK(all.error / all.square < 1.04 * expected);
      }
}

TEST_CASE("hadamard: unbiased over keys for ordinary values, nearly for few large ones") {
  constexpr int keys = 4000;
  std::vector<std::vector<float>> kinds(3, normal_values(256, 3));
  for (std::size_t i = 0; i < 256; ++i) kinds[1][i] = std::max(kinds[1][i], 0.0F);
  kinds[2][40] = kinds[2][41] = 15;
  for (const int bits : {1, 2, 3})
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
      const std::vector<float>& values = kinds[kind];
      std::vector<double> mean(256);
      double error = 0;
      for (std::uint64_t key = 0; key < keys; ++key) {
        const std::vector<double> after = dequantized(quant::quantize(tensor_of(values), hadamard(bits), key));
        for (std::size_t i = 0; i < 256; ++i) {
          const double off = after[i] - static_cast<double>(values[i]);
          mean[i] += off / keys;
          error += off * off / keys;
        }
      }
      const double squares = std::inner_product(mean.begin(), mean.end(), mean.begin(), 0.0);
      CAPTURE(bits);
      CAPTURE(kind);
      // Means of independent unbiased errors have the squared norm error / keys.
      const double bias = std::sqrt(std::max(squares - error / keys, 0.0) / error);
      CHECK(bias < (kind < 2 ? 0.02 : bits == 1 ? 0.4 : 0.1));
    }
}

TEST_CASE("hadamard: in lengths transformed in parts, a part of larger variance is as unbiased as the others") {
  constexpr int keys = 4000;
  for (const std::int64_t count : {192, 320, 257, 100}) {
    std::vector<float> values = normal_values(count, 3);
    for (std::int64_t i = count / 2; i < count; ++i) values[static_cast<std::size_t>(i)] *= 1.5F;
    std::vector<double> mean(values.size());
    double error = 0, square = 0;
    for (std::uint64_t key = 0; key < keys; ++key) {
      const std::vector<double> after = dequantized(quant::quantize(tensor_of(values), hadamard(2, count), key));
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double off = after[i] - static_cast<double>(values[i]);
        mean[i] += off / keys;
        error += off * off / keys;
      }
    }
    for (const double off : mean) square += off * off;
    CHECK(std::sqrt(std::max(square - error / keys, 0.0) / error) < (count == 192 ? 0.04 : 0.15));
  }
}

TEST_CASE("hadamard: channel means are stored once per sample, and only where they help") {
  // [samples, positions, C]: a small class token, then tokens that differ from their mean by a tenth of it.
  const std::int64_t samples = 3, positions = 65, channels = 48;
  const std::vector<float> noise = normal_values(samples * positions * channels, 6);
  const std::vector<float> common = normal_values(samples * channels, 7);
  std::vector<float> values = noise;
  for (std::int64_t i = 0; i < samples * positions * channels; ++i) {
    const std::int64_t sample = i / (positions * channels), position = i / channels % positions;
    float& value = values[static_cast<std::size_t>(i)];
    value *= position == 0 ? 0.01F : 0.1F;
    if (position > 0) value += common[static_cast<std::size_t>(sample * channels + i % channels)];
  }
  const Tensor x = tensor_of(values).reshape({samples, positions, channels});
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64})
    for (int bits = 1; bits <= 3; ++bits) {
      const QuantizedTensor quantized = quant::quantize(x.to(dtype), hadamard(bits, channels), 4);
      const QuantConfig of_means = quant::min_error_config(8, {});
      CHECK(quantized.bytes.bytes() == quant::quantized_bytes(x.shape(), quantized.config));
      CHECK(quantized.bytes.bytes() == quant::quantized_bytes({x.count()}, quantized.config) +
                                           quant::quantized_bytes({samples, channels}, of_means));
      const std::vector<double> after = dequantized(quantized);
      double tokens = 0, classes = 0;
      for (std::size_t i = 0; i < after.size(); ++i) {
        const double error = after[i] - static_cast<double>(values[i]);
        (static_cast<std::int64_t>(i) / channels % positions == 0 ? classes : tokens) += error * error;
      }
      // The residual is a tenth of each element; rounding of the means and of bf16 comes on top.
      const double expected = theory[static_cast<std::size_t>(bits)], rounding = dtype == DType::bf16 ? 1.5e-5 : 1e-6;
      tokens /= static_cast<double>(samples * (positions - 1) * channels);
      classes /= static_cast<double>(samples * channels);
      CHECK(tokens < 1.2 * 0.01 * expected + 1e-5 + rounding);
      CHECK(tokens > 0.8 * 0.01 * expected);
      CHECK(classes < 1.6 * 1e-4 * expected + 1e-6);
      for (std::int64_t begin = 0; begin < x.count(); begin += 617)
        for (const std::int64_t end : {begin + 1, std::min(begin + 5000, x.count()), x.count()})
          REQUIRE(dequantized(quantized, begin, end) ==
                  std::vector<double>(after.begin() + begin, after.begin() + end));
    }
  // No means for few positions or without samples.
  CHECK(quant::range_bytes({4, 31, 256}, hadamard(2)) == 4 * 4 * 31);
  CHECK(quant::range_bytes({4, 32, 256}, hadamard(2)) > 4 * 4 * 32 + 4 * 256);
  CHECK(quant::range_bytes({4, 8, 4, 256}, hadamard(2)) == quant::range_bytes({4, 32, 256}, hadamard(2)));
  CHECK(quant::range_bytes({4 * 32, 256}, hadamard(2)) == 4 * 4 * 32);
  CHECK(quant::range_bytes({4, 32, 256}, quant::min_error_config(4, {})) == 4 * 4 * 32);
}

TEST_CASE("hadamard: with means too, nonfinite values affect their group alone, and large bf16 stay finite") {
  std::vector<float> values = normal_values(2 * 64 * 64, 6);
  for (float& value : values) value += 10;
  values[100] = infinity;
  values[2 * 64 * 64 - 1] = not_a_number;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    const std::vector<double> after =
        dequantized(quant::quantize(tensor_of(values, dtype).reshape({2, 64, 64}), hadamard(2, 64), 1));
    for (std::size_t i = 0; i < after.size(); ++i) CHECK(std::isnan(after[i]) == (i / 64 == 1 || i / 64 == 127));
  }
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % 3 == 0 ? 0x1.D0p127F : 0x1.FEp127F;
  for (const double after :
       dequantized(quant::quantize(tensor_of(values, DType::bf16).reshape({2, 64, 64}), hadamard(1), 1)))
    REQUIRE(std::isfinite(after));
}

TEST_CASE("hadamard: a dequantized range equals the same range of the whole, in every type") {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64})
    for (const int bits : {3, 1})
      for (const std::int64_t size : {192, 256, 100, 7}) {
        const QuantizedTensor quantized =
            quant::quantize(tensor_of(normal_values(1000, 1), dtype), hadamard(bits, size), 3);
        const std::vector<double> whole = dequantized(quantized);
        for (std::int64_t begin = 0; begin < 1000; begin += 37)
          for (std::int64_t end = begin; end <= 1000; end += 41)
            REQUIRE(dequantized(quantized, begin, end) ==
                    std::vector<double>(whole.begin() + begin, whole.begin() + end));
      }
}

TEST_CASE("hadamard: block_dequantizer gives the bits of dequantize on any thread, with means and without") {
  const int before = threads();
  set_threads(3);
  std::vector<float> values = normal_values(4 * 60 * 50, 8);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] += static_cast<float>(i % 50);              // in the means
    if (i / 3000 == 1 && i % 50 == 7) values[i] = 1e38F;  // dequantized in f64
  }
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64})
    for (const Shape& shape : {Shape{4, 60, 50}, Shape{240, 50}})
      for (const std::int64_t size : {64, 100, 1024}) {
        const QuantizedTensor quantized =
            quant::quantize(tensor_of(values, dtype).reshape(shape), hadamard(2, size), 3);
        const std::vector<double> whole = dequantized(quantized);
        const quant::BlockDequantizer read = quant::block_dequantizer(quantized, 150, threads());
        const Tensor out = Tensor::empty(shape, dtype, Device::cpu);
        parallel_tasks(13, [&](std::int64_t task, int thread) {
          const Range own = part(out.count(), task, 13);
          for (std::int64_t begin = own.begin; begin < own.end; begin += 150)
            read(begin, std::min(own.end, begin + 150), out.raw() + begin * size_of(dtype), thread);
        });
        CHECK(out.to_vector() == whole);
      }
  set_threads(before);
}

TEST_CASE("hadamard: arbitrary samples, positions, channels, groups, threads and ranges") {
  const int before = threads();
  CHECK(rc::check("each group has the theoretical error of what its means leave", [] {
    const auto between = [](std::int64_t low, std::int64_t high) { return *rc::gen::inRange<std::int64_t>(low, high); };
    const std::int64_t samples = between(1, 4), positions = between(20, 130), channels = between(1, 140),
                       size = between(64, 1025), count = samples * positions * channels;
    const int bits = static_cast<int>(between(1, 4));
    const DType dtype = *rc::gen::element(DType::f32, DType::bf16, DType::f64);
    const float spread = *rc::gen::element(0.0F, 1.0F, 10.0F), noise = *rc::gen::element(0.1F, 1.0F);
    const auto seed = static_cast<std::uint64_t>(between(0, 1000));
    std::vector<float> own = normal_values(count, seed), values = own;
    const std::vector<float> common = normal_values(samples * channels, seed + 1);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      own[at] *= noise;
      values[at] =
          own[at] + spread * common[static_cast<std::size_t>(i / (positions * channels) * channels + i % channels)];
    }
    const Tensor x = tensor_of(values, dtype).reshape({samples, positions, channels});
    set_threads(1);
    const QuantizedTensor quantized = quant::quantize(x, hadamard(bits, size), seed);
    set_threads(4);
    RC_ASSERT(bytes_of(quantized) == bytes_of(quant::quantize(x, hadamard(bits, size), seed)));
    const std::vector<double> whole = dequantized(quantized);
    const std::int64_t begin = between(0, count), end = between(begin, count + 1);
    RC_ASSERT(dequantized(quantized, begin, end) == std::vector<double>(whole.begin() + begin, whole.begin() + end));
    const bool centred = positions >= 32;
    const double expected = theory[static_cast<std::size_t>(bits)];
    const double largest = 4 * static_cast<double>(spread + noise);
    // Rounding of the means to 8 bits, of a group's mean to bf16, and of values to 16 bits.
    const double digits = std::pow(largest * 0x1p-8, 2) * (centred || dtype != DType::f64 ? 1 : 0.1);
    constexpr int draws = 16;
    std::vector<std::vector<double>> drawn{whole};
    for (std::uint64_t draw = 1; draw < draws; ++draw)
      drawn.push_back(dequantized(quant::quantize(x, hadamard(bits, size), seed + 1000 * draw)));
    // Over all groups, whose deviations are independent.
    double all_elements = 0, all_residual = 0, all_deviation = 0;
    std::vector<double> all_errors(draws);
    for (std::int64_t first = 0; first < count; first += size) {
      const std::int64_t last = std::min(first + size, count);
      if (last - first < 64) continue;
      const auto begin_of = static_cast<std::size_t>(first), end_of = static_cast<std::size_t>(last);
      const auto elements = static_cast<double>(last - first), rounding = elements * digits;
      const double square = sums(values, whole, begin_of, end_of).square;
      const double residual = centred ? std::min(square, elements * static_cast<double>(noise * noise) * 1.3) : square;
      // The centred values: less the channel means, or less the group's mean.
      std::vector<double> transformed;
      const std::vector<float>& from = centred ? own : values;
      const double mean = centred ? 0 : std::accumulate(from.begin() + first, from.begin() + last, 0.0) / elements;
      for (std::size_t i = begin_of; i < end_of; ++i) transformed.push_back(static_cast<double>(from[i]) - mean);
      const double effective = effective_elements(transformed, centred || spread == 0 || channels >= 64);
      double error = 0;
      for (std::size_t draw = 0; draw < draws; ++draw) {
        const Sums group = sums(values, drawn[draw], begin_of, end_of);
        RC_ASSERT(group.error <= max_error(bits, effective) * expected * residual + rounding);
        error += group.error / draws;
        all_errors[draw] += group.error;
      }
      RC_ASSERT(error <= max_mean_error(draws, bits, effective) * expected * residual + rounding);
      all_elements += elements;
      all_residual += residual;
      all_deviation += residual * residual / effective;
    }
    if (all_residual == 0) return;
    const double all_effective = all_residual * all_residual / all_deviation, all_rounding = all_elements * digits;
    for (const double error : all_errors)
      RC_ASSERT(error <= max_error(bits, all_effective) * expected * all_residual + all_rounding);
    const double mean_error = std::accumulate(all_errors.begin(), all_errors.end(), 0.0) / draws;
    RC_ASSERT(mean_error <= max_mean_error(draws, bits, all_effective) * expected * all_residual + all_rounding);
  }));
  set_threads(before);
}

TEST_CASE("hadamard: a channel with a large mean is centred, whichever it is") {
  constexpr std::int64_t samples = 2, positions = 197, channels = 384;
  for (const std::int64_t far : {3, 20, 40, 63, 200, 383}) {
    std::vector<float> values = normal_values(samples * positions * channels, 5);
    for (std::size_t i = static_cast<std::size_t>(far); i < values.size(); i += channels) values[i] += 30;
    const std::vector<double> after =
        dequantized(quant::quantize(tensor_of(values).reshape({samples, positions, channels}), hadamard(2, 768), 1));
    double error = 0;
    for (std::size_t i = 0; i < values.size(); ++i)
      error += std::pow(after[i] - static_cast<double>(values[i]), 2) / static_cast<double>(values.size());
    CAPTURE(far);
    CHECK(error < 1.1 * theory[2]);
  }
}

TEST_CASE("hadamard: means are used where they help, whichever channels vary most") {
  constexpr std::int64_t samples = 2, positions = 200, channels = 64, band = 8;
  const std::vector<float> common = normal_values(channels, 3);
  for (std::int64_t far = 0; far < channels; far += band) {
    std::vector<float> values = normal_values(samples * positions * channels, 4);
    double residual = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto channel = static_cast<std::int64_t>(i % channels);
      values[i] *= channel / band == far / band ? 2.0F : 0.1F;
      residual += std::pow(static_cast<double>(values[i]), 2);
      values[i] += 0.55F * common[static_cast<std::size_t>(channel)];
    }
    const std::vector<double> after =
        dequantized(quant::quantize(tensor_of(values).reshape({samples, positions, channels}), hadamard(2, 768), 1));
    double error = 0;
    for (std::size_t i = 0; i < values.size(); ++i) error += std::pow(after[i] - static_cast<double>(values[i]), 2);
    CAPTURE(far);
    CHECK(error < 1.2 * theory[2] * residual);
  }
}

TEST_CASE("hadamard: constant and nonfinite groups") {
  for (int bits = 1; bits <= 3; ++bits) {
    for (const float value : {0.0F, 1.0F, 0.1F, -3e38F, 1e-38F})
      for (const double after :
           dequantized(quant::quantize(tensor_of(std::vector<float>(300, value)), hadamard(bits), 9)))
        CHECK(std::abs(after - static_cast<double>(value)) <= 0x1p-7 * std::abs(static_cast<double>(value)));
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64})
      for (const float bad : {not_a_number, infinity, -infinity}) {
        std::vector<float> values = normal_values(256, 2);
        values[70] = bad;
        const std::vector<double> after = dequantized(quant::quantize(tensor_of(values, dtype), hadamard(bits, 64), 1));
        for (std::size_t i = 0; i < 256; ++i) CHECK(std::isnan(after[i]) == (i / 64 == 1));
      }
  }
}

TEST_CASE("hadamard: variances at the limits of f32; no finite value becomes infinite") {
  for (const float scale : {1e-36F, 1e-30F, 1e-18F, 1e18F, 1e30F, 1e37F})
    for (int bits = 1; bits <= 3; ++bits) {
      std::vector<float> values = normal_values(256, 4);
      for (float& value : values) value *= scale;
      const std::vector<double> after = dequantized(quant::quantize(tensor_of(values), hadamard(bits), 2));
      double square = 0, error = 0;
      for (std::size_t i = 0; i < 256; ++i) {
        const double value = static_cast<double>(values[i]) / static_cast<double>(scale);
        square += value * value;
        error += std::pow(after[i] / static_cast<double>(scale) - value, 2);
      }
      CHECK(error < 1.3 * theory[static_cast<std::size_t>(bits)] * square);
    }
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    const float most = 3.38e38F;
    std::vector<float> values(256, most);
    for (std::size_t i = 0; i < 256; i += 2) values[i] = -most;
    for (int bits = 1; bits <= 3; ++bits)
      for (const double after : dequantized(quant::quantize(tensor_of(values, dtype), hadamard(bits), 2)))
        REQUIRE(std::isfinite(after));
  }
}

TEST_CASE("hadamard: the same bytes whatever the thread count, others with another key") {
  const int before = threads();
  const auto check = [](const Tensor& x, std::int64_t size) {
    set_threads(1);
    const QuantizedTensor one = quant::quantize(x, hadamard(2, size), 8);
    const std::vector<double> decoded_by_one = dequantized(one);
    for (const int more : {2, 3}) {
      set_threads(more);
      const QuantizedTensor others = quant::quantize(x, hadamard(2, size), 8);
      CHECK(bytes_of(one) == bytes_of(others));
      CHECK(decoded_by_one == dequantized(others));
      CHECK(bytes_of(one) != bytes_of(quant::quantize(x, hadamard(2, size), 9)));
    }
  };
  for (const std::int64_t size : {256, 192, 100}) check(tensor_of(normal_values(197 * 211, 1)), size);
  // With means of more samples than one unit; one sample's means straddle two groups of means.
  std::vector<float> values = normal_values(170 * 37 * 60, 2);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] += 5 * std::sin(static_cast<float>(i / (37 * 60) * 60 + i % 60));
  for (const std::int64_t size : {1024, 256, 100}) check(tensor_of(values).reshape({170, 37, 60}), size);
  set_threads(before);
}

TEST_CASE("hadamard: up to 3 bits, consecutive groups of up to 1024, no known ranges") {
  const Tensor x = tensor_of(normal_values(2048, 1));
  CHECK_THROWS_AS(quant::quantize(x, hadamard(4), 1), Error);
  CHECK_THROWS_AS(quant::quantize(x, hadamard(2, 1025), 1), Error);
  QuantConfig columns = hadamard(2);
  columns.grouping.kind = quant::Grouping::Kind::columns;
  CHECK_THROWS_AS(quant::quantize(x, columns, 1), Error);
  const std::vector<quant::Range> ranges(8, quant::Range{-1, 1});
  CHECK_THROWS_AS(quant::quantize(x, hadamard(2), 1, ranges, {}), Error);
  for (int bits = 1; bits <= 8; ++bits) {
    CHECK(quant::min_error_config(bits, {}).quantizer == (bits <= 3 ? "hadamard" : "dithered"));
    CHECK(quant::min_error_config(bits, columns.grouping).quantizer == "dithered");
  }
}

}  // namespace lacuna
