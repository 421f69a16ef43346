// Costs of operations on this machine, and the file that keeps them.
#include "apps/train/machine_costs.h"
#include "tests/apps/commands/command_run.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace lacuna::apps {

TEST_CASE("costs: nominal until they are calibrated, then those of the file; a damaged file is none") {
  std::filesystem::remove(costs_file());
  CHECK(machine_costs() == CostTable{});
  const CostTable measured = calibrate();
  CHECK(machine_costs() == measured);
  const auto of_nominal = [&](const char* name) {
    return measured.coding.at(name) / quant::quantizers().get(name)->seconds_per_byte();
  };
  for (const double ratio : {measured.bytes / CostTable{}.bytes, of_nominal("dithered"), of_nominal("hadamard")}) {
    const double steps = 2 * std::log2(ratio);  // powers of the square root of two
    CHECK(std::abs(steps - std::round(steps)) < 1e-9);
    CHECK(std::abs(steps) <= 4);
  }
  test::write_file(costs_file(), "{\"bytes\": [");
  CHECK(machine_costs() == CostTable{});
  std::filesystem::remove(costs_file());
}

TEST_CASE("costs: of an operation") {
  const CostTable costs;
  CHECK(costs.quantize_seconds(1000, 2) == doctest::Approx(1000 * 1.5e-10));
  CHECK(costs.quantize_seconds(1000, 8) == doctest::Approx(1000 * 6.5e-11));
  CHECK(costs.quantize_seconds(1000, exact_bits) == 0);
  CHECK(costs.op_seconds(1'000'000'000, 0) == doctest::Approx(1e9 / costs.macs));
  CHECK(costs.op_seconds(0, 1000) == doctest::Approx(1000 / costs.bytes));
}

}  // namespace lacuna::apps
