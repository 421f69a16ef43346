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

using Ways = std::vector<std::vector<HoldCost>>;

/// The least cost of all choices within `bytes`; infinite where none fits.
double least_of_all(std::span<const std::vector<HoldCost>> tensors, std::int64_t bytes) {
  if (tensors.empty()) return 0;
  double least = std::numeric_limits<double>::infinity();
  for (const HoldCost& way : tensors.front())
    if (way.bytes <= bytes) least = std::min(least, way.cost + least_of_all(tensors.subspan(1), bytes - way.bytes));
  return least;
}

/// One to four tensors of any sizes and costs; the costs of some ways are not worth their bytes.
Ways random_ways(std::uint32_t site) {
  const RandomStream draws{.seed = 4, .step = 0, .site = site};
  std::uint64_t drawn = 1;
  Ways tensors(1 + draws.below(0, 4));
  for (std::vector<HoldCost>& ways : tensors) {
    const double scale = std::exp(5 * draws.uniform(drawn++));
    for (std::int64_t bytes = draws.below(drawn++, 5); ways.size() < 6; bytes += 1 + draws.below(drawn++, 20))
      ways.push_back({bytes, scale * draws.uniform(drawn++)});
  }
  return tensors;
}

std::int64_t bytes_at(const Ways& tensors, bool most) {
  std::int64_t bytes = 0;
  for (const std::vector<HoldCost>& ways : tensors) bytes += most ? ways.back().bytes : ways.front().bytes;
  return bytes;
}

std::array<std::int64_t, 9> at_every_width(std::int64_t bytes) {
  std::array<std::int64_t, 9> all;
  all.fill(bytes);
  return all;
}

}  // namespace

TEST_CASE("bits: the variance of a quantized tensor is that of normal values, and convex in the bytes") {
  const std::vector<float> values = test::normal_values(256 * 400, 5);
  const Tensor x = test::tensor_of(values);
  for (const int bits : bit_widths) {
    if (bits == exact_bits) continue;
    const std::vector<double> after = test::dequantized(quant::quantize(x, quant::min_error_config(bits, {}), 1));
    double error = 0;
    for (std::size_t i = 0; i < values.size(); ++i) error += std::pow(after[i] - static_cast<double>(values[i]), 2);
    CHECK(code_variance(bits) == doctest::Approx(error / static_cast<double>(values.size())).epsilon(0.04));
  }
  CHECK(code_variance(exact_bits) == 0);
  for (std::size_t i = 2; i < bit_widths.size(); ++i) {
    const auto gain = [&](std::size_t to) {
      return (code_variance(bit_widths.at(to - 1)) - code_variance(bit_widths.at(to))) /
             (bit_widths.at(to) - bit_widths.at(to - 1));
    };
    CHECK(gain(i - 1) > gain(i));
  }
}

TEST_CASE("bits: bytes are those of the quantized tensor, whatever is left over for the last group") {
  for (const std::int64_t elements : {1, 7, 129, 1000, 4097, 20003})
    for (const int bits : {1, 2, 3, 4, 5, 6, 8}) {
      const quant::QuantConfig config = quant::min_error_config(bits, {});
      const std::int64_t ranges = quant::range_bytes({elements}, config);
      const quant::QuantizedTensor quantized =
          quant::quantize(test::tensor_of(test::normal_values(elements, 7)), config, 1);
      CHECK(held_bytes({.elements = elements, .range_bytes = at_every_width(ranges)}, bits) == quantized.bytes.bytes());
    }
}

TEST_CASE("bits: within the bytes, near the best of all choices, and a bound that no choice beats") {
  for (std::uint32_t site = 0; site < 150; ++site) {
    const Ways tensors = random_ways(site);
    const std::int64_t fewest = bytes_at(tensors, false), most = bytes_at(tensors, true);
    double step = 0;  // what one step of one tensor can change
    for (const std::vector<HoldCost>& ways : tensors)
      step = std::max(step, std::ranges::max(ways, {}, &HoldCost::cost).cost);
    for (int part = 0; part <= 8; ++part) {
      const std::int64_t bytes = fewest + (most - fewest) * part / 8;
      const HoldPlan plan = choose_ways(tensors, bytes);
      CAPTURE(site);
      CAPTURE(part);
      std::int64_t own_bytes = 0;
      double own_cost = 0;
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        own_bytes += tensors[i][plan.ways[i]].bytes;
        own_cost += tensors[i][plan.ways[i]].cost;
      }
      CHECK(plan.bytes == own_bytes);
      CHECK(plan.cost == doctest::Approx(own_cost));
      CHECK(plan.bytes <= bytes);
      const double best = least_of_all(tensors, bytes), rounding = 1e-9 * own_cost;
      CHECK(plan.least_cost <= best + rounding);
      CHECK(best <= plan.cost + rounding);
      CHECK(plan.cost - plan.least_cost <= step + rounding);
    }
    CHECK(choose_ways(tensors, fewest - 1).bytes == fewest);
  }
  CHECK(choose_ways({}, 10).ways.empty());
}

TEST_CASE("bits: all where they fit, one each where nothing does, and more bytes never err more") {
  const std::vector<BitChoice> choices{
      {.elements = 1000, .range_bytes = at_every_width(16), .sensitivity = 1},
      {.elements = 64, .range_bytes = at_every_width(4), .sensitivity = 100, .exact_bytes = 256},
      {.elements = 512, .range_bytes = at_every_width(8), .sensitivity = 0}};
  CHECK(allocate_bits(choices, 1 << 20).bits == std::vector{8, exact_bits, 8});
  const BitPlan fewest = allocate_bits(choices, 10);
  CHECK(fewest.bits == std::vector{1, 1, 1});
  double before = std::numeric_limits<double>::infinity();
  for (std::int64_t bytes = fewest.bytes; bytes < 2000; bytes += 8) {
    const BitPlan plan = allocate_bits(choices, bytes);
    CHECK(plan.bytes <= bytes);
    CHECK(plan.variance <= before);
    before = plan.variance;
  }
}

}  // namespace lacuna
