// QuantizedTensor of groups that are turned at random: what they lose, and that it has no mean.
#include "core/parallel.h"
#include "ops/quantize/affine.h"
#include "ops/quantize/hadamard.h"
#include "ops/quantize/hadamard_codes.h"
#include "tests/ops/codes_of_values.h"

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
using quant::Rounding;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

/// Squared error relative to the variance, of standard normal values in 1 to 3 bits: d / (1 - d) of Max's d (1960).
constexpr std::array theory{0.0, 0.5708, 0.1348, 0.0389};
/// What a group of that many normal values may lose in one draw, of theory's. The mean is at most one; the deviation,
/// drawn a million times, `deviation` / sqrt(elements); one value beyond the last step gives few values a long tail,
/// and counts for more the less theory has all lose.
double most_lost_once(int bits, double elements) {
  constexpr std::array deviation{0.0, 1.5, 1.8, 2.5};
  const auto at = static_cast<std::size_t>(bits);
  return 1 + 10 * deviation[at] / std::sqrt(elements) + 6.2 / (theory[at] * elements);
}
/// The same in the mean of so many draws. Some of it no draw changes: two equal values and nothing else are turned to
/// as many zeros as others, whatever the signs, and lose 1 / 0.5708 of theory's in 1 bit.
double most_lost_in_mean(int draws, int bits, double elements) {
  return std::clamp(most_lost_once(bits, draws * elements), 2.0, 2.5);
}

/// How many of a group's values deviate independently of each other once it is turned, at the least: all, or
/// (sum x^2)^2 / sum x^4 where that is less, as of large ones among small: of k equal ones at every n / k-th place the
/// transform makes k values, n / k times each. `normal`: they are drawn one by one, and fourth powers three times the
/// square of the second, as normal values have, are no sign of few.
double effective_elements(const std::vector<double>& values, bool normal) {
  double squares = 0, fourths = 0;
  for (const double value : values) {
    squares += value * value;
    fourths += std::pow(value, 4);
  }
  const auto count = static_cast<double>(values.size());
  return fourths == 0 ? count : std::min(count, (normal ? 3 : 1) * squares * squares / fourths);
}

QuantConfig rotated(int bits, std::int64_t size = 256) {
  return {.bits = bits, .grouping = {.size = size}, .rounding = Rounding::hadamard};
}

/// Squares of a group's values less their mean, and of what its codes miss, and the product of both.
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
  const auto transformed = [](const std::vector<C>& values) {
    const auto count = static_cast<std::int64_t>(values.size());
    std::vector<C> from(static_cast<std::size_t>(quant::whole_vectors(count))), to = from, room = from;
    std::ranges::copy(values, from.begin());
    quant::hadamard_transform<order>(
        count, room.data(), [all = from.data()](std::int64_t i, C factor) { return quant::load(all + i) * factor; },
        [all = to.data()](int, std::int64_t i, const quant::Lanes<C>& some) { quant::store<C>(some, all + i); });
    to.resize(values.size());
    return to;
  };
  // The same by its definition: butterflies at all distances of the longest of 2^k up to 1024 and 3 · 2^k up to 768; of
  // other lengths at the beginning, at the end, and at the beginning again.
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
        const double most = (own[i] + own[i + part] + own[i + 2 * part]) * 2 / 3;
        for (std::size_t j = i; j < length; j += part) own[j] = most - own[j];
      }
    }
    return values;
  };
  const C rounding = std::is_same_v<C, float> ? C(1e-5) : C(1e-14);
  for (std::int64_t count = 1; count <= 1030; ++count) {
    const std::vector<float> normal = normal_values(count, static_cast<std::uint64_t>(count));
    const std::vector<C> values(normal.begin(), normal.end()), turned = transformed(values);
    const double length = std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
    CHECK(std::inner_product(turned.begin(), turned.end(), turned.begin(), 0.0) ==
          doctest::Approx(length).epsilon(1e-5));
    const std::vector<C> again = transformed(turned);
    for (std::size_t i = 0; i < values.size(); ++i) REQUIRE(std::abs(again[i] - values[i]) < rounding);
    const std::vector<double> by_definition = defined({normal.begin(), normal.end()});
    for (std::size_t i = 0; i < values.size(); ++i)
      REQUIRE(std::abs(static_cast<double>(turned[i]) - by_definition[i]) < static_cast<double>(rounding));
  }
  // One value is spread over all: none counts for more than two thirds of what all have of one another.
  for (const std::int64_t count : {64, 192, 256, 384, 768, 1024}) {
    std::vector<C> one(static_cast<std::size_t>(count));
    one[static_cast<std::size_t>(count / 3)] = 1;
    const bool thirds = count % 3 == 0;
    for (const C value : transformed(one))
      CHECK(std::abs(value) <= (thirds ? 2 / std::sqrt(C(3)) : C(1)) / std::sqrt(static_cast<C>(count)) + C(1e-6));
  }
}

}  // namespace

TEST_CASE_TEMPLATE("rotated codes: the transform is what it is defined as, keeps lengths, and is its own inverse", C,
                   float, double) {
  check_transform<quant::Passes::reads_in_order, C>();
  check_transform<quant::Passes::writes_in_order, C>();
}

TEST_CASE("rotated codes: every length and number of bits; the error is at right angles to the group") {
  for (int bits = 1; bits <= 3; ++bits) {
    double worst = 0;
    for (std::int64_t count = 1; count <= 1030; ++count) {
      const std::int64_t size = count % 3 == 0 ? 256 : count % 3 == 1 ? 64 : 192;
      const std::vector<float> values = normal_values(count, static_cast<std::uint64_t>(count));
      const QuantizedTensor codes = quant::encode(tensor_of(values), rotated(bits, size), 7);
      REQUIRE(codes.bytes.bytes() == quant::coded_bytes(codes.shape, codes.coding));
      const std::vector<double> after = decoded(codes);
      for (std::int64_t begin = 0; begin < count; begin += size) {
        const std::int64_t end = std::min(count, begin + size);
        const Sums group = sums(values, after, static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
        // The step's own rounding, and that of the mean, are parts in 2^9.
        CHECK(std::abs(group.product) <= 0x1p-7 * (group.square + 0x1p-9));
        const double ratio = group.error / (theory[static_cast<std::size_t>(bits)] * group.square);
        if (end - begin >= 64) worst = std::max(worst, ratio);
      }
    }
    // Of a group, which is one of 1800 here: what falls beyond the last step may be more than usual.
    CHECK(worst < (bits == 1 ? 1.9 : bits == 2 ? 2.2 : 3.2));
  }
}

TEST_CASE("rotated codes: the error is that of theory, whatever the values, and is told") {
  // Normal values; ReLU's of them; exponential ones of either sign; with one in a hundred ten times as large.
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
        const QuantizedTensor codes = quant::encode(tensor_of(values), rotated(bits, size), 5);
        const std::vector<double> after = decoded(codes);
        Sums all;
        for (std::size_t begin = 0; begin < values.size(); begin += static_cast<std::size_t>(size)) {
          const Sums group =
              sums(values, after, begin, std::min(values.size(), begin + static_cast<std::size_t>(size)));
          all.square += group.square;
          all.error += group.error;
        }
        const double expected = theory[static_cast<std::size_t>(bits)];
        // Few large ones leave a turned group with two heights rather than a bell, which is coded better than that.
        CHECK(all.error / all.square > 0.65 * expected);
        CHECK(all.error / all.square < 1.04 * expected);
      }
}

TEST_CASE("rotated codes: over many keys no mean error is left of ordinary values, and little of few large ones") {
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
        const std::vector<double> after = decoded(quant::encode(tensor_of(values), rotated(bits), key));
        for (std::size_t i = 0; i < 256; ++i) {
          const double off = after[i] - static_cast<double>(values[i]);
          mean[i] += off / keys;
          error += off * off / keys;
        }
      }
      const double squares = std::inner_product(mean.begin(), mean.end(), mean.begin(), 0.0);
      CAPTURE(bits);
      CAPTURE(kind);
      // Means of independent errors have a square of error / keys.
      const double bias = std::sqrt(std::max(squares - error / keys, 0.0) / error);
      CHECK(bias < (kind < 2 ? 0.02 : bits == 1 ? 0.4 : 0.1));
    }
}

TEST_CASE(
    "rotated codes: of lengths that are transformed in parts, a part with more than its share is scaled as the "
    "others") {
  constexpr int keys = 4000;
  for (const std::int64_t count : {192, 320, 257, 100}) {
    std::vector<float> values = normal_values(count, 3);
    for (std::int64_t i = count / 2; i < count; ++i) values[static_cast<std::size_t>(i)] *= 1.5F;
    std::vector<double> mean(values.size());
    double error = 0, square = 0;
    for (std::uint64_t key = 0; key < keys; ++key) {
      const std::vector<double> after = decoded(quant::encode(tensor_of(values), rotated(2, count), key));
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

TEST_CASE("rotated codes: what the positions of a sample share is held once, and only where it helps") {
  // [samples, positions, C]: tokens that differ from their mean by a tenth of it, behind a class token that is small.
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
      const QuantizedTensor codes = quant::encode(x.to(dtype), rotated(bits, channels), 4);
      const QuantConfig of_means = quant::least_error(8, {});
      CHECK(codes.bytes.bytes() == quant::coded_bytes(x.shape(), codes.coding));
      CHECK(codes.bytes.bytes() ==
            quant::coded_bytes({x.count()}, codes.coding) + quant::coded_bytes({samples, channels}, of_means));
      const std::vector<double> after = decoded(codes);
      double tokens = 0, classes = 0;
      for (std::size_t i = 0; i < after.size(); ++i) {
        const double error = after[i] - static_cast<double>(values[i]);
        (static_cast<std::int64_t>(i) / channels % positions == 0 ? classes : tokens) += error * error;
      }
      // A tenth, of each element; the means' own rounding and that of the halves come on top.
      const double expected = theory[static_cast<std::size_t>(bits)], rounding = dtype == DType::bf16 ? 1.5e-5 : 1e-6;
      tokens /= static_cast<double>(samples * (positions - 1) * channels);
      classes /= static_cast<double>(samples * channels);
      CHECK(tokens < 1.2 * 0.01 * expected + 1e-5 + rounding);
      CHECK(tokens > 0.8 * 0.01 * expected);
      CHECK(classes < 1.6 * 1e-4 * expected + 1e-6);
      for (std::int64_t begin = 0; begin < x.count(); begin += 617)
        for (const std::int64_t end : {begin + 1, std::min(begin + 5000, x.count()), x.count()})
          REQUIRE(decoded(codes, begin, end) == std::vector<double>(after.begin() + begin, after.begin() + end));
    }
  // Few positions share no means, nor do those of one sample's vector.
  CHECK(quant::range_bytes({4, 31, 256}, rotated(2)) == 4 * 4 * 31);
  CHECK(quant::range_bytes({4, 32, 256}, rotated(2)) > 4 * 4 * 32 + 4 * 256);
  CHECK(quant::range_bytes({4, 8, 4, 256}, rotated(2)) == quant::range_bytes({4, 32, 256}, rotated(2)));
  CHECK(quant::range_bytes({4 * 32, 256}, rotated(2)) == 4 * 4 * 32);
  CHECK(quant::range_bytes({4, 32, 256}, quant::least_error(4, {})) == 4 * 4 * 32);
}

TEST_CASE("rotated codes: with means too, what is not finite stays in its group, and large halves stay finite") {
  std::vector<float> values = normal_values(2 * 64 * 64, 6);
  for (float& value : values) value += 10;
  values[100] = infinity;
  values[2 * 64 * 64 - 1] = not_a_number;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    const std::vector<double> after =
        decoded(quant::encode(tensor_of(values, dtype).reshape({2, 64, 64}), rotated(2, 64), 1));
    for (std::size_t i = 0; i < after.size(); ++i) CHECK(std::isnan(after[i]) == (i / 64 == 1 || i / 64 == 127));
  }
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % 3 == 0 ? 0x1.D0p127F : 0x1.FEp127F;
  for (const double after : decoded(quant::encode(tensor_of(values, DType::bf16).reshape({2, 64, 64}), rotated(1), 1)))
    REQUIRE(std::isfinite(after));
}

TEST_CASE("rotated codes: any part decodes to what the whole decodes to, of every type") {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64})
    for (const int bits : {3, 1})
      for (const std::int64_t size : {192, 256, 100, 7}) {
        const QuantizedTensor codes = quant::encode(tensor_of(normal_values(1000, 1), dtype), rotated(bits, size), 3);
        const std::vector<double> whole = decoded(codes);
        for (std::int64_t begin = 0; begin < 1000; begin += 37)
          for (std::int64_t end = begin; end <= 1000; end += 41)
            REQUIRE(decoded(codes, begin, end) == std::vector<double>(whole.begin() + begin, whole.begin() + end));
      }
}

TEST_CASE("rotated codes: a reader gives any thread the bits that decoding gives, with means and without") {
  const int before = threads();
  set_threads(3);
  std::vector<float> values = normal_values(4 * 60 * 50, 8);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] += static_cast<float>(i % 50);              // what the means hold
    if (i / 3000 == 1 && i % 50 == 7) values[i] = 1e38F;  // decoded in double
  }
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64})
    for (const Shape& shape : {Shape{4, 60, 50}, Shape{240, 50}})
      for (const std::int64_t size : {64, 100, 1024}) {
        const QuantizedTensor codes = quant::encode(tensor_of(values, dtype).reshape(shape), rotated(2, size), 3);
        const std::vector<double> whole = decoded(codes);
        const quant::RangeDecoder read = quant::range_decoder(codes);
        const Tensor out = Tensor::empty(shape, dtype, Device::cpu);
        parallel_tasks(13, [&](std::int64_t task, int) {
          const Range own = part(out.count(), task, 13);
          for (std::int64_t begin = own.begin; begin < own.end; begin += 150)
            read(begin, std::min(own.end, begin + 150), out.raw() + begin * size_of(dtype));
        });
        CHECK(out.to_vector() == whole);
      }
  set_threads(before);
}

TEST_CASE("rotated codes: of any samples, positions, channels and groups; whatever the threads and the part") {
  const int before = threads();
  CHECK(rc::check("each group errs by its part of what its means leave", [] {
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
    const QuantizedTensor codes = quant::encode(x, rotated(bits, size), seed);
    set_threads(4);
    RC_ASSERT(bytes_of(codes) == bytes_of(quant::encode(x, rotated(bits, size), seed)));
    const std::vector<double> whole = decoded(codes);
    const std::int64_t begin = between(0, count), end = between(begin, count + 1);
    RC_ASSERT(decoded(codes, begin, end) == std::vector<double>(whole.begin() + begin, whole.begin() + end));
    const bool centred = positions >= 32;
    const double expected = theory[static_cast<std::size_t>(bits)];
    const double largest = 4 * static_cast<double>(spread + noise);
    // That the means have 8 bits, and a group's 8 digits; what 16 bits round a value to.
    const double digits = std::pow(largest * 0x1p-8, 2) * (centred || dtype != DType::f64 ? 1 : 0.1);
    constexpr int draws = 16;
    std::vector<std::vector<double>> drawn{whole};
    for (std::uint64_t draw = 1; draw < draws; ++draw)
      drawn.push_back(decoded(quant::encode(x, rotated(bits, size), seed + 1000 * draw)));
    // Of all groups; what each deviates adds up in squares.
    double all_elements = 0, all_residual = 0, all_deviation = 0;
    std::vector<double> all_errors(draws);
    for (std::int64_t first = 0; first < count; first += size) {
      const std::int64_t last = std::min(first + size, count);
      if (last - first < 64) continue;
      const auto begin_of = static_cast<std::size_t>(first), end_of = static_cast<std::size_t>(last);
      const auto elements = static_cast<double>(last - first), rounding = elements * digits;
      const double square = sums(values, whole, begin_of, end_of).square;
      const double residual = centred ? std::min(square, elements * static_cast<double>(noise * noise) * 1.3) : square;
      // What is turned: less what the positions share, or the group's own mean.
      std::vector<double> turned;
      const std::vector<float>& from = centred ? own : values;
      const double mean = centred ? 0 : std::accumulate(from.begin() + first, from.begin() + last, 0.0) / elements;
      for (std::size_t i = begin_of; i < end_of; ++i) turned.push_back(static_cast<double>(from[i]) - mean);
      const double effective = effective_elements(turned, centred || spread == 0 || channels >= 64);
      double error = 0;
      for (std::size_t draw = 0; draw < draws; ++draw) {
        const Sums group = sums(values, drawn[draw], begin_of, end_of);
        RC_ASSERT(group.error <= most_lost_once(bits, effective) * expected * residual + rounding);
        error += group.error / draws;
        all_errors[draw] += group.error;
      }
      RC_ASSERT(error <= most_lost_in_mean(draws, bits, effective) * expected * residual + rounding);
      all_elements += elements;
      all_residual += residual;
      all_deviation += residual * residual / effective;
    }
    if (all_residual == 0) return;
    const double all_effective = all_residual * all_residual / all_deviation, all_rounding = all_elements * digits;
    for (const double error : all_errors)
      RC_ASSERT(error <= most_lost_once(bits, all_effective) * expected * all_residual + all_rounding);
    const double mean_error = std::accumulate(all_errors.begin(), all_errors.end(), 0.0) / draws;
    RC_ASSERT(mean_error <= most_lost_in_mean(draws, bits, all_effective) * expected * all_residual + all_rounding);
  }));
  set_threads(before);
}

TEST_CASE("rotated codes: a channel far from the others is taken off, whichever it is") {
  constexpr std::int64_t samples = 2, positions = 197, channels = 384;
  for (const std::int64_t far : {3, 20, 40, 63, 200, 383}) {
    std::vector<float> values = normal_values(samples * positions * channels, 5);
    for (std::size_t i = static_cast<std::size_t>(far); i < values.size(); i += channels) values[i] += 30;
    const std::vector<double> after =
        decoded(quant::encode(tensor_of(values).reshape({samples, positions, channels}), rotated(2, 768), 1));
    double error = 0;
    for (std::size_t i = 0; i < values.size(); ++i)
      error += std::pow(after[i] - static_cast<double>(values[i]), 2) / static_cast<double>(values.size());
    CAPTURE(far);
    CHECK(error < 1.1 * theory[2]);
  }
}

TEST_CASE("rotated codes: means are kept where they help, whichever channels vary most") {
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
        decoded(quant::encode(tensor_of(values).reshape({samples, positions, channels}), rotated(2, 768), 1));
    double error = 0;
    for (std::size_t i = 0; i < values.size(); ++i) error += std::pow(after[i] - static_cast<double>(values[i]), 2);
    CAPTURE(far);
    CHECK(error < 1.2 * theory[2] * residual);
  }
}

TEST_CASE("rotated codes: constants, and what is not finite") {
  for (int bits = 1; bits <= 3; ++bits) {
    for (const float value : {0.0F, 1.0F, 0.1F, -3e38F, 1e-38F})
      for (const double after : decoded(quant::encode(tensor_of(std::vector<float>(300, value)), rotated(bits), 9)))
        CHECK(std::abs(after - static_cast<double>(value)) <= 0x1p-7 * std::abs(static_cast<double>(value)));
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64})
      for (const float bad : {not_a_number, infinity, -infinity}) {
        std::vector<float> values = normal_values(256, 2);
        values[70] = bad;
        const std::vector<double> after = decoded(quant::encode(tensor_of(values, dtype), rotated(bits, 64), 1));
        for (std::size_t i = 0; i < 256; ++i) CHECK(std::isnan(after[i]) == (i / 64 == 1));
      }
  }
}

TEST_CASE("rotated codes: widths at the ends of what floats hold, and no finite half becomes an infinity") {
  for (const float scale : {1e-36F, 1e-30F, 1e-18F, 1e18F, 1e30F, 1e37F})
    for (int bits = 1; bits <= 3; ++bits) {
      std::vector<float> values = normal_values(256, 4);
      for (float& value : values) value *= scale;
      const std::vector<double> after = decoded(quant::encode(tensor_of(values), rotated(bits), 2));
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
      for (const double after : decoded(quant::encode(tensor_of(values, dtype), rotated(bits), 2)))
        REQUIRE(std::isfinite(after));
  }
}

TEST_CASE("rotated codes: the same bits with one thread and with two, and others with another key") {
  const int before = threads();
  const auto check = [](const Tensor& x, std::int64_t size) {
    set_threads(1);
    const QuantizedTensor one = quant::encode(x, rotated(2, size), 8);
    const std::vector<double> decoded_by_one = decoded(one);
    for (const int more : {2, 3}) {
      set_threads(more);
      const QuantizedTensor others = quant::encode(x, rotated(2, size), 8);
      CHECK(bytes_of(one) == bytes_of(others));
      CHECK(decoded_by_one == decoded(others));
      CHECK(bytes_of(one) != bytes_of(quant::encode(x, rotated(2, size), 9)));
    }
  };
  for (const std::int64_t size : {256, 192, 100}) check(tensor_of(normal_values(197 * 211, 1)), size);
  // With means, of more samples than are coded at once: those of one lie across two groups of means.
  std::vector<float> values = normal_values(170 * 37 * 60, 2);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] += 5 * std::sin(static_cast<float>(i / (37 * 60) * 60 + i % 60));
  for (const std::int64_t size : {1024, 256, 100}) check(tensor_of(values).reshape({170, 37, 60}), size);
  set_threads(before);
}

TEST_CASE("rotated codes: in runs of up to 1024 and 3 bits, without ranges") {
  const Tensor x = tensor_of(normal_values(2048, 1));
  CHECK_THROWS_AS(quant::encode(x, rotated(4), 1), Error);
  CHECK_THROWS_AS(quant::encode(x, rotated(2, 1025), 1), Error);
  QuantConfig columns = rotated(2);
  columns.grouping.kind = quant::Grouping::Kind::column;
  CHECK_THROWS_AS(quant::encode(x, columns, 1), Error);
  const std::vector<quant::Range> ranges(8, quant::Range{-1, 1});
  CHECK_THROWS_AS(quant::encode(x, rotated(2), 1, ranges, {}), Error);
  for (int bits = 1; bits <= 8; ++bits) {
    CHECK(quant::least_error(bits, {}).rounding == (bits <= 3 ? Rounding::hadamard : Rounding::dithered));
    CHECK(quant::least_error(bits, columns.grouping).rounding == Rounding::dithered);
  }
}

}  // namespace lacuna
