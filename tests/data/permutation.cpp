#include "data/permutation.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <vector>

namespace lacuna {
namespace {

std::vector<std::int64_t> order_of(std::int64_t size, std::uint64_t seed, std::uint32_t epoch) {
  const Permutation permutation(size, {seed, epoch, random_site("test")});
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  for (std::int64_t i = 0; i < size; ++i) order[static_cast<std::size_t>(i)] = permutation(i);
  return order;
}

TEST_CASE("a permutation meets every index once, whatever the size") {
  for (const std::int64_t size : {1, 2, 3, 7, 10, 16, 17, 99, 100, 1000, 50000}) {
    CAPTURE(size);
    std::vector<std::int64_t> order = order_of(size, 3, 1), all(order.size());
    std::ranges::sort(order);
    std::iota(all.begin(), all.end(), 0);
    CHECK(order == all);
  }
}

TEST_CASE("seed and epoch make another order") {
  CHECK(order_of(100, 1, 0) == order_of(100, 1, 0));
  CHECK(order_of(100, 1, 0) != order_of(100, 2, 0));
  CHECK(order_of(100, 1, 0) != order_of(100, 1, 1));
}

TEST_CASE("an order looks random: few fixed points, no drift, every place equally likely") {
  const std::vector<std::int64_t> order = order_of(50000, 1, 0);
  double drift = 0;
  std::int64_t fixed = 0, neighbours = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    drift += (static_cast<double>(i) - 24999.5) * (static_cast<double>(order[i]) - 24999.5);
    fixed += order[i] == static_cast<std::int64_t>(i) ? 1 : 0;
    neighbours += i > 0 && std::abs(order[i] - order[i - 1]) == 1 ? 1 : 0;
  }
  CHECK(std::abs(drift / (50000.0 * 50000.0 * 50000.0 / 12)) < 0.02);  // correlation: deviation 0.0045
  CHECK(fixed < 8);                                                    // expected 1
  CHECK(neighbours < 12);                                              // expected 2

  std::vector<int> places(7 * 7);
  for (std::uint32_t epoch = 0; epoch < 7000; ++epoch) {
    const std::vector<std::int64_t> small = order_of(7, 1, epoch);
    for (std::size_t i = 0; i < 7; ++i) ++places[i * 7 + static_cast<std::size_t>(small[i])];
  }
  for (const int count : places) CHECK(std::abs(count - 1000) < 150);  // five deviations
}

}  // namespace
}  // namespace lacuna
