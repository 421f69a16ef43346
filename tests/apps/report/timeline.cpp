// Pages with the memory of one step, of `bench --timeline`, `plan --timeline` and of runs.
#include "tests/apps/report/page.h"

#include <algorithm>

namespace lacuna::test {
namespace {

/// The state of the panel: for each chart the sum of its datasets at the peak, and the stated peak.
const std::string panel_state = charts + R"(
  const at = (t, i) => Object.values(t).reduce((sum, bytes) => sum + bytes[i], 0);
  const areas = () => [...document.querySelectorAll('#timeline .charts canvas')].map(c => Chart.getChart(c));
  const sums = () => areas().map(chart => { const {peak} = chart.options.timeline;
    return [peak.bytes, 1048576 * chart.data.datasets.reduce((sum, d) => sum + d.data[peak.point].y, 0)]; });
  const bars = Chart.getChart(document.querySelector('#timeline > div > .chart canvas') || [...document.querySelectorAll('#timeline canvas')].pop());
  const by_purpose = sums(), names = areas()[0].data.datasets.map(d => d.label);
  const told = {
    labels: [...document.querySelectorAll('#timeline .charts h3')].map(h => h.textContent),
    phases: areas().map(chart => chart.options.timeline.phases.map(p => p[0])),
    bars: bars.data.datasets.map(d => [d.stack, d.backgroundColor === 'transparent', d.data.map(v => v * 1048576)]),
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth, by_purpose, names};
  const choose = document.querySelector('#timeline select');
  choose.value = 'by_module'; choose.dispatchEvent(new Event('change'));
  told.by_module = sums(); told.modules = areas()[0].data.datasets.map(d => d.label);
  return told;)";

void check_panel(const nlohmann::json& told) {
  for (const char* const by : {"by_purpose", "by_module"})
    for (const auto& chart : told.at(by))
      CHECK(chart.at(0).get<double>() == doctest::Approx(chart.at(1).get<double>()));
  for (const auto& phases : told.at("phases")) CHECK(phases == nlohmann::json{"forward", "backward", "update"});
  // The filled bars of a case sum to its peak; outlines are no shorter.
  const nlohmann::json& bars = told.at("bars");
  for (std::size_t i = 0; i + 1 < bars.size(); i += 2) {
    double sum = 0;
    for (std::size_t row = 0; row < bars.at(i).at(2).size(); ++row) {
      const double filled = bars.at(i).at(2).at(row), outline = bars.at(i + 1).at(2).at(row);
      sum += filled;
      CHECK(outline >= filled);
    }
    CHECK(bars.at(i).at(1) == false);
    CHECK(bars.at(i + 1).at(1) == true);
    CHECK(sum == doctest::Approx(told.at("by_purpose").at(i / 2).at(0).get<double>()));
  }
  const auto has = [&](const char* list, const char* name) {
    return std::ranges::find(told.at(list), nlohmann::json(name)) != told.at(list).end();
  };
  CHECK(has("names", "saved"));
  CHECK(has("modules", "blocks.0"));
  CHECK(has("modules", "patch_embed"));
}

}  // namespace

TEST_CASE("bench: the timeline of a step under two policies") {
  const TemporaryFolder folder(plain_vit);
  const CommandResult result = run(folder, {"bench", "-c", "c.yaml", "memory={policy: fixed, bits: 4}", "--steps", "2",
                                            "--timeline", "page.html", "--beside", "keep", "--json", "bench.json"});
  check_says(result.out, "page.html");
  const nlohmann::json told = evaluate(folder, "page.html", panel_state);
  if (told.is_null()) return;
  CHECK(told.at("labels") == nlohmann::json{"keep", "fixed:4"});
  CHECK(told.at("overflow") == 0);
  REQUIRE(told.at("bars").size() == 4);
  check_panel(told);
  const double peak = told.at("by_purpose").at(1).at(0);
  CHECK(peak == read_json(folder / "bench.json").at("memory").at("peak").get<double>());
  CHECK(peak < told.at("by_purpose").at(0).at(0).get<double>());
  CHECK(run_command(folder, {"bench", "-c", "c.yaml", "--beside", "keep"}).code == 2);
  CHECK(run_command(folder, {"bench", "-c", "c.yaml", "--timeline", "page.html", "--beside", "nothing"}).code == 2);
}

TEST_CASE("plan: the timeline of a step under two policies") {
  const TemporaryFolder folder(plain_vit);
  const CommandResult result = run(
      folder, {"plan", "-c", "c.yaml", "--policies", "keep,fixed:4", "--timeline", "page.html", "--json", "plan.json"});
  check_says(result.out, "page.html");
  const nlohmann::json told = evaluate(folder, "page.html", panel_state);
  if (told.is_null()) return;
  CHECK(told.at("labels") == nlohmann::json{"keep", "fixed:4"});
  check_panel(told);
  const nlohmann::json plans = read_json(folder / "plan.json");
  for (std::size_t i = 0; i < 2; ++i)
    CHECK(told.at("by_purpose").at(i).at(0) == plans.at(i).at("memory").at("peak").get<double>());
}

TEST_CASE("report: the timeline of a run's step") {
  const TemporaryFolder folder(plain_vit);
  run(folder, {"train", "-c", "c.yaml", "train.steps=2", "memory.recompute=[blocks.0]", "output.dir=run"});
  CHECK(read_json(folder / "run/timeline.json").at("time") == "predicted");
  run(folder, {"report", "run"});
  const nlohmann::json told = evaluate(folder, "run/report.html", panel_state);
  if (told.is_null()) return;
  REQUIRE(told.at("labels").size() == 1);
  check_panel(told);
}

}  // namespace lacuna::test
