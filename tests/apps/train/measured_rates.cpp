// The machine's rates that budgets are planned by, and the file that keeps them.
#include "apps/train/measured_rates.h"
#include "core/parallel.h"
#include "tests/apps/commands/command_run.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

namespace lacuna::apps {

TEST_CASE("budget: rates are finite and positive, and measured once") {
  const Rates first = measured_rates();
  for (const double rate : {first.macs, first.bytes, first.dithered, first.rotated}) {
    CHECK(std::isfinite(rate));
    CHECK(rate > 0);
  }
  // Rounded, so that a measurement's noise is not a plan's.
  for (const double ratio :
       {first.bytes / Rates{}.bytes, first.dithered / Rates{}.dithered, first.rotated / Rates{}.rotated}) {
    const double steps = 2 * std::log2(ratio);
    CHECK(std::abs(steps - std::round(steps)) < 1e-9);
    CHECK(std::abs(steps) <= 4);
  }
  // Kept for the next run; a file that is damaged is made anew.
  const auto kept = [] { return nlohmann::json::parse(test::read_file(rates_file())); };
  bool found = false;
  for (const auto& entry : kept())
    found = found || (entry.at("bytes") == first.bytes && entry.at("dithered") == first.dithered &&
                      entry.at("rotated") == first.rotated);
  CHECK(found);
  const std::string whole = test::read_file(rates_file());
  const int before = threads();
  for (const int own : {before + 1, before + 2}) {
    test::write_file(rates_file(), own == before + 1 ? "{\"bytes\": [" : kept().dump().substr(0, 40));
    set_threads(own);
    const Rates others = measured_rates();
    CHECK(others.bytes > 0);
    REQUIRE(kept().size() == 1);
    CHECK(kept().front().at("bytes") == others.bytes);
  }
  // This process goes on with what it has, whatever stands there by now.
  set_threads(before);
  CHECK(measured_rates() == first);
  // What stands there is taken as it is.
  set_threads(before + 3);
  const std::string mine = fmt::format(" {} threads,", before);
  const nlohmann::json all = nlohmann::json::parse(whole);
  nlohmann::json others;
  for (const auto& item : all.items()) {
    std::string name = item.key();
    if (const std::size_t at = name.find(mine); at != std::string::npos)
      others[name.replace(at, mine.size(), fmt::format(" {} threads,", before + 3))] = {
          {"bytes", 3e9}, {"dithered", 2e-9}, {"rotated", 5e-9}};
  }
  REQUIRE(others.size() == 1);
  test::write_file(rates_file(), others.dump());
  CHECK(measured_rates() == Rates{.bytes = 3e9, .dithered = 2e-9, .rotated = 5e-9});
  set_threads(before);
  test::write_file(rates_file(), whole);
  CHECK(first.coding_seconds(1000, 2) == doctest::Approx(1000 * first.rotated));
  CHECK(first.coding_seconds(1000, 8) == doctest::Approx(1000 * first.dithered));
  CHECK(first.coding_seconds(1000, 32) == 0);
  CHECK(bytes_to_measure_rates() < 64 << 20);
}

}  // namespace lacuna::apps
