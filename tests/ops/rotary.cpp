#include "ops/attention/rotary.h"

#include "core/error.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

namespace lacuna {
namespace {

using Kind = RotaryScaling::Kind;

struct Expected {
  std::string name;
  std::int64_t dimensions;
  double theta;
  std::int64_t max_positions, longest;
  RotaryScaling scaling;
  double attention_factor;
  std::vector<double> inverse;  // all of 4 or 8 dimensions
};

}  // namespace

// Frequencies of transformers 5.24 (ROPE_INIT_FUNCTIONS), printed by tests/ops/make_rotary.py.
TEST_CASE("rotary_frequencies scales as transformers does") {
  const Expected all[] = {
      {"default", 8, 10000, 64, 64, {}, 1, {1, 0.100000001, 0.00999999978, 0.00100000005}},
      {"linear",
       8,
       10000,
       64,
       64,
       {.kind = Kind::linear, .factor = 4},
       1,
       {0.25, 0.0250000004, 0.00249999994, 0.000250000012}},
      {"dynamic within",
       8,
       10000,
       64,
       64,
       {.kind = Kind::dynamic, .factor = 2},
       1,
       {1, 0.100000001, 0.00999999978, 0.00100000005}},
      {"llama3",
       8,
       10000,
       512,
       512,
       {.kind = Kind::llama3, .factor = 8, .original_positions = 256},
       1,
       {1, 0.100000001, 0.00124999997, 0.000125000006}},
      {"yarn",
       8,
       10000,
       256,
       256,
       {.kind = Kind::yarn, .factor = 4, .original_positions = 64},
       1.13862944,
       {1, 0.0625, 0.00249999994, 0.000250000012}},
      {"yarn, other ramp",
       8,
       10000,
       256,
       256,
       {.kind = Kind::yarn, .factor = 4, .original_positions = 64, .beta_fast = 8, .beta_slow = 2, .truncate = false},
       1.13862944,
       {1, 0.0250000004, 0.00249999994, 0.000250000012}},
      {"yarn, mscales",
       8,
       10000,
       256,
       256,
       {.kind = Kind::yarn, .factor = 4, .original_positions = 64, .mscale = 1, .mscale_all_dimensions = 0.7},
       1.03791002,
       {1, 0.0625, 0.00249999994, 0.000250000012}},
      {"yarn, attention factor",
       8,
       10000,
       256,
       256,
       {.kind = Kind::yarn, .factor = 4, .original_positions = 64, .attention_factor = 1.25},
       1.25,
       {1, 0.0625, 0.00249999994, 0.000250000012}},
      {"longrope, short",
       8,
       10000,
       256,
       64,
       {.kind = Kind::longrope,
        .original_positions = 64,
        .short_factors = {1, 1.5, 2, 3},
        .long_factors = {4, 5, 6, 7}},
       1.15470054,
       {1, 0.0666666701, 0.00499999989, 0.00033333333}},
      {"longrope, long",
       8,
       10000,
       256,
       65,
       {.kind = Kind::longrope,
        .original_positions = 64,
        .short_factors = {1, 1.5, 2, 3},
        .long_factors = {4, 5, 6, 7}},
       1.15470054,
       {0.25, 0.0199999996, 0.00166666671, 0.000142857141}},
  };
  for (const Expected& expected : all) {
    CAPTURE(expected.name);
    const RotaryFrequencies found = rotary_frequencies(expected.dimensions, expected.theta, expected.max_positions,
                                                       expected.longest, expected.scaling);
    CHECK(std::abs(found.attention_factor - expected.attention_factor) < 1e-7);
    REQUIRE(found.inverse.size() == expected.inverse.size());
    for (std::size_t i = 0; i < found.inverse.size(); ++i)
      CHECK(std::abs(found.inverse[i] - expected.inverse[i]) < 1e-6 * expected.inverse[i]);
  }
}

TEST_CASE("rotary_frequencies refuses what makes no sense") {
  const auto frequencies = [](const RotaryScaling& scaling) { return rotary_frequencies(8, 1e4, 64, 64, scaling); };
  CHECK_THROWS_WITH_AS(frequencies({.kind = Kind::linear}), doctest::Contains("factor above 0"), Error);
  CHECK_THROWS_WITH_AS(frequencies({.kind = Kind::longrope, .short_factors = {1, 2}}),
                       doctest::Contains("4 elements of short_factor, got 2"), Error);
  CHECK_THROWS_WITH_AS(frequencies({.kind = Kind::llama3, .factor = 2, .low_frequency = 4}),
                       doctest::Contains("high_freq_factor above"), Error);
}

TEST_CASE("rotary turns pairs of each head by the position in the sequence") {
  const RotaryTablePtr table = make_rotary_table({.inverse = {1, 0.1}, .attention_factor = 2}, 10, Device::cpu);
  std::vector<double> values;
  for (int i = 0; i < 3 * 2 * 5; ++i) values.push_back(std::sin(i));
  const Tensor x = Tensor::from(std::span<const double>(values), {1, 3, 10});
  const std::vector<std::int64_t> offsets{0, 2, 3};
  for (const bool neighbours : {false, true}) {
    const Rotary op{.heads = 2,
                    .table = table,
                    .sequences = Sequences::packed(offsets),
                    .neighbours = neighbours,
                    .first_positions = {0, 7}};
    const std::vector<double> y = op.forward(std::array{x}).to_vector();
    for (std::size_t head = 0; head < 6; ++head) {
      const double position = std::array{0, 1, 7}[head / 2];
      for (std::size_t i = 0; i < 2; ++i) {
        const std::size_t a = 5 * head + (neighbours ? 2 * i : i), b = 5 * head + (neighbours ? 2 * i + 1 : i + 2);
        const double angle = position * (i == 0 ? 1 : 0.1), c = 2 * std::cos(angle), s = 2 * std::sin(angle);
        CHECK(std::abs(y[a] - (values[a] * c - values[b] * s)) < 1e-6);
        CHECK(std::abs(y[b] - (values[b] * c + values[a] * s)) < 1e-6);
      }
      CHECK(y[5 * head + 4] == values[5 * head + 4]);
    }
  }
  const Rotary beyond{.heads = 2, .table = table, .sequences = Sequences::packed(offsets), .first_positions = {9, 0}};
  CHECK_THROWS_WITH_AS(beyond.forward(std::array{x}), doctest::Contains("positions 9 to 10"), Error);
}

}  // namespace lacuna
