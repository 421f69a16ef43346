// Allocation of bits, against all that could have been chosen.
#include "autograd/plan/bit_allocation.h"

#include "core/random.h"
#include "tests/ops/quantized_values.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace lacuna {
namespace {

constexpr std::array widths{1, 2, 3, 4, 5, 6, 8, exact_bits};

std::int64_t bytes_of(const BitChoice& choice, int bits) {
  if (bits == exact_bits) return choice.exact_bytes;
  return (bits <= 3 ? choice.hadamard_bytes : choice.range_bytes) + quant::code_bytes(choice.elements, bits);
}

double variance_of(const BitChoice& choice, int bits) { return choice.sensitivity * code_variance(bits); }

/// The least variance of all allocations within `bytes`; infinite where none fits.
double least_of_all(std::span<const BitChoice> choices, std::int64_t bytes) {
  if (choices.empty()) return 0;
  double least = std::numeric_limits<double>::infinity();
  for (const int bits : widths) {
    if (bits == exact_bits && choices.front().exact_bytes == 0) continue;
    const std::int64_t own = bytes_of(choices.front(), bits);
    if (own <= bytes)
      least = std::min(least, variance_of(choices.front(), bits) + least_of_all(choices.subspan(1), bytes - own));
  }
  return least;
}

std::int64_t bytes_at(std::span<const BitChoice> choices, int bits) {
  std::int64_t bytes = 0;
  for (const BitChoice& choice : choices) bytes += bytes_of(choice, bits);
  return bytes;
}

/// One to five tensors whose sizes and sensitivities span orders of magnitude.
std::vector<BitChoice> random_choices(std::uint32_t site) {
  const RandomStream draws{.seed = 3, .step = 0, .site = site};
  std::vector<BitChoice> choices(1 + draws.below(0, 5));
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const auto magnitude = [&](std::uint64_t which) { return std::exp(7 * draws.uniform(1 + 3 * i + which)); };
    const std::int64_t elements = 1 + static_cast<std::int64_t>(magnitude(0));
    choices[i] = {.elements = elements,
                  .range_bytes = static_cast<std::int64_t>(4 * draws.below(2 + 3 * i, 5)),
                  .hadamard_bytes = std::min(elements / 8, static_cast<std::int64_t>(draws.below(40 + i, 12))),
                  .sensitivity = draws.below(3 + 3 * i, 8) == 0 ? 0 : 1e-3 * magnitude(2)};
    // A tensor takes more than its codes and their ranges.
    if (site % 2 == 0)
      choices[i].exact_bytes = 4 * choices[i].elements + std::max(choices[i].range_bytes, choices[i].hadamard_bytes);
  }
  return choices;
}

}  // namespace

TEST_CASE("a code's variance is what the codec does to normal values, and convex in the bytes") {
  const std::vector<float> values = test::normal_values(256 * 400, 5);
  const Tensor x = test::tensor_of(values);
  for (const int bits : {1, 2, 3, 4, 5, 6, 8}) {
    const std::vector<double> after = test::dequantized(quant::quantize(x, quant::min_error_config(bits, {}), 1));
    double error = 0;
    for (std::size_t i = 0; i < values.size(); ++i) error += std::pow(after[i] - static_cast<double>(values[i]), 2);
    CHECK(code_variance(bits) == doctest::Approx(error / static_cast<double>(values.size())).epsilon(0.04));
  }
  CHECK(code_variance(exact_bits) == 0);
  for (std::size_t i = 2; i < widths.size(); ++i)
    CHECK((code_variance(widths[i - 2]) - code_variance(widths[i - 1])) / (widths[i - 1] - widths[i - 2]) >
          (code_variance(widths[i - 1]) - code_variance(widths[i])) / (widths[i] - widths[i - 1]));
}

TEST_CASE("bits: bytes are those that codes take, whatever is left over for the last block") {
  for (const std::int64_t elements : {1, 7, 129, 1000, 4097, 20003})
    for (const int bits : {1, 2, 3, 4, 5, 6, 8}) {
      const quant::QuantConfig coding = quant::min_error_config(bits, {});
      const std::int64_t ranges = quant::range_bytes({elements}, coding);
      const quant::QuantizedTensor codes = quant::quantize(test::tensor_of(test::normal_values(elements, 7)), coding, 1);
      CHECK(held_bytes({.elements = elements, .range_bytes = ranges, .hadamard_bytes = ranges}, bits) ==
            codes.bytes.bytes());
    }
}

TEST_CASE("bits: within the bytes and near the best of all allocations") {
  for (std::uint32_t site = 0; site < 200; ++site) {
    const std::vector<BitChoice> choices = random_choices(site);
    const std::int64_t fewest = bytes_at(choices, 1), most = bytes_at(choices, site % 2 == 0 ? exact_bits : 8);
    for (int part = 0; part <= 6; ++part) {
      const std::int64_t bytes = fewest + (most - fewest) * part / 6;
      const BitPlan plan = allocate_bits(choices, bytes);
      CAPTURE(site);
      CAPTURE(part);
      REQUIRE(plan.bits.size() == choices.size());
      std::int64_t own_bytes = 0;
      double own_variance = 0;
      for (std::size_t i = 0; i < choices.size(); ++i) {
        own_bytes += bytes_of(choices[i], plan.bits[i]);
        own_variance += variance_of(choices[i], plan.bits[i]);
      }
      CHECK(plan.bytes == own_bytes);
      CHECK(plan.bytes <= bytes);
      CHECK(plan.variance == doctest::Approx(own_variance).epsilon(1e-9));
      const double least = least_of_all(choices, bytes), rounding = 1e-9 * own_variance;
      CHECK(plan.least_variance <= least + rounding);
      CHECK(least <= plan.variance + rounding);
      // What the bound leaves open is no more than one step of one tensor, the first being the largest.
      double largest = 0;
      for (const BitChoice& choice : choices) largest = std::max(largest, choice.sensitivity);
      CHECK(plan.variance - plan.least_variance <= largest * (code_variance(1) - code_variance(2)));
    }
  }
}

TEST_CASE("bits: more bytes never make it worse") {
  for (std::uint32_t site = 0; site < 40; ++site) {
    std::vector<BitChoice> choices = random_choices(site);
    for (BitChoice& choice : choices) choice.elements = (choice.elements + 7) / 8 * 8;  // no byte is shared out
    double before = std::numeric_limits<double>::infinity();
    const std::int64_t fewest = bytes_at(choices, 1), most = bytes_at(choices, 8);
    for (std::int64_t bytes = fewest; bytes <= most; bytes += std::max<std::int64_t>(1, (most - fewest) / 97)) {
      const double variance = allocate_bits(choices, bytes).variance;
      CAPTURE(site);
      CAPTURE(bytes);
      CHECK(variance <= before * (1 + 1e-12));
      before = variance;
    }
  }
}

TEST_CASE("bits: all of them where they fit, the fewest where nothing does") {
  const std::vector<BitChoice> choices{{.elements = 1000, .range_bytes = 16, .hadamard_bytes = 16, .sensitivity = 1},
                                       {.elements = 64, .range_bytes = 4, .hadamard_bytes = 4, .sensitivity = 100},
                                       {.elements = 512, .range_bytes = 8, .hadamard_bytes = 8, .sensitivity = 0}};
  const BitPlan all = allocate_bits(choices, bytes_at(choices, 8));
  CHECK(all.bits == std::vector{8, 8, 8});
  CHECK(all.least_variance == doctest::Approx(all.variance).epsilon(1e-12));
  const BitPlan fewest = allocate_bits(choices, 10);
  CHECK(fewest.bits == std::vector{1, 1, 1});
  CHECK(fewest.bytes == bytes_at(choices, 1));
  CHECK(fewest.variance == doctest::Approx(101 * code_variance(1)));
  CHECK(allocate_bits({}, 10).bits.empty());
  const BitPlan between = allocate_bits(choices, bytes_at(choices, 1) + 3 * 64 / 8);
  CHECK(between.bits == std::vector{1, 4, 1});  // the small one that matters gets them all
}

TEST_CASE("ways: steps that are not worth their bytes are passed over, and dearer ones never taken") {
  // Nine bytes buy hardly anything, ten buy all of it.
  const std::vector<std::vector<HoldCost>> tensors{{{0, 1.0}, {9, 0.99}, {10, 0.0}}, {{0, 0.5}, {10, 0.4}, {20, 0.6}}};
  CHECK(choose_ways(tensors, 10).ways == std::vector<std::size_t>{2, 0});
  CHECK(choose_ways(tensors, 9).ways == std::vector<std::size_t>{1, 0});
  const HoldPlan all = choose_ways(tensors, 1000);
  CHECK(all.ways == std::vector<std::size_t>{2, 1});
  CHECK(all.bytes == 20);
  CHECK(all.cost == doctest::Approx(0.4));
  CHECK(choose_ways({}, 10).ways.empty());
}

TEST_CASE("ways: within the bytes, and the bound is below the best of all choices") {
  for (std::uint32_t site = 0; site < 200; ++site) {
    const RandomStream draws{.seed = 4, .step = 0, .site = site};
    std::uint64_t drawn = 0;
    std::vector<std::vector<HoldCost>> tensors(3);
    std::int64_t most = 0;
    double largest = 0;  // cost that one tensor can save
    for (std::vector<HoldCost>& ways : tensors) {
      std::int64_t bytes = 0;
      for (int i = 0; i < 4; ++i) {
        ways.push_back({bytes, draws.uniform(drawn++)});
        largest = std::max(largest, ways.front().cost);
        bytes += 1 + draws.below(drawn++, 20);
      }
      most += ways.back().bytes;
    }
    for (std::int64_t bytes = 0; bytes <= most; bytes += 5) {
      const HoldPlan plan = choose_ways(tensors, bytes);
      CHECK(plan.bytes <= bytes);
      double best = std::numeric_limits<double>::infinity();
      for (const HoldCost& a : tensors[0])
        for (const HoldCost& b : tensors[1])
          for (const HoldCost& c : tensors[2])
            if (a.bytes + b.bytes + c.bytes <= bytes) best = std::min(best, a.cost + b.cost + c.cost);
      CHECK(plan.least_cost <= best + 1e-12);
      CHECK(best <= plan.cost + 1e-12);
      CHECK(plan.cost - plan.least_cost <= largest);
    }
  }
}

}  // namespace lacuna
