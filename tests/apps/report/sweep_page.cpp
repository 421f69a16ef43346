// A sweep's page as a browser builds it: bars, points and the table.
#include "tests/apps/sweep/sweep_run.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace lacuna::test {
namespace {

/// The cases as the rows of the table stand after so many clicks on the title of `column`.
nlohmann::json sorted_cases(const TemporaryFolder& folder, const std::string& column, int clicks) {
  return evaluate(folder, "out/sweep.html",
                  fmt::format("for (let i = 0; i < {}; ++i) [...document.querySelectorAll('#values th button')]"
                              ".find(b => b.textContent.includes('{}')).click();"
                              "return [...document.querySelectorAll('#values tbody tr')].map(row => row.dataset.case);",
                              clicks, column));
}

}  // namespace

TEST_CASE("sweep: the page shows bars with the right values in a browser") {
  const TemporaryFolder folder;
  write_inputs(folder, plans);
  REQUIRE(sweep(folder).code == 0);
  const std::string page = read_file(folder / "out/sweep.html");
  CHECK(page.find("src=") == std::string::npos);  // nothing comes from elsewhere
  CHECK(page.find("<link") == std::string::npos);
  const nlohmann::json read = read_json(folder / "out/sweep.json"), cases = read.at("cases");
  const nlohmann::json shown = evaluate(
      folder, "out/sweep.html",
      charts +
          "const bars = id => chart(id).data.datasets.map(d => ({label: d.label, bytes: d.bytes, paths: d.paths, id: "
          "d.case, width: chart(id).getDatasetMeta(chart(id).data.datasets.indexOf(d)).data.map(b => b.width)}));"
          "return {peak: bars('peak'), layers: bars('layers'), best: document.querySelector('tr.best "
          "td').textContent, titles: [...document.querySelectorAll('#values td')].map(td => td.title)};");
  if (shown.is_null()) return;
  double scale = 0;  // bytes of a pixel
  for (const nlohmann::json& purpose : shown.at("peak"))
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const nlohmann::json bytes = cases.at(i).at("result").at("at_peak").at(purpose.at("label").get<std::string>());
      CHECK(purpose.at("bytes").at(i) == bytes);
      if (bytes < 1000) continue;
      const double own = bytes.get<double>() / purpose.at("width").at(i).get<double>();
      if (scale == 0) scale = own;
      CHECK(own == doctest::Approx(scale).epsilon(0.02));  // edges lie on pixels
    }
  for (const nlohmann::json& one : cases) {
    std::int64_t sum = 0;
    for (const auto& [purpose, bytes] : one.at("result").at("at_peak").items())
      if (bytes.is_number()) sum += bytes.get<std::int64_t>();
    CHECK(sum == one.at("result").at("memory").at("peak"));
  }
  CHECK(shown.at("layers").size() == 2);  // two cases beside each other
  for (const nlohmann::json& layers : shown.at("layers")) {
    const nlohmann::json& one =
        *std::ranges::find_if(cases, [&](const auto& c) { return c.at("id") == layers.at("id"); });
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < layers.at("paths").size(); ++i) {
      const std::string block = layers.at("paths").at(i);
      sum += layers.at("bytes").at(i).get<std::int64_t>();
      if (block == "small ones") continue;
      std::int64_t expected = 0;
      for (const auto& [path, saved] : one.at("result").at("saved_by_path").items())
        if (path == block || path.starts_with(block + ".")) expected += saved.get<std::int64_t>();
      CHECK(layers.at("bytes").at(i) == expected);
    }
    CHECK(sum == one.at("result").at("memory").at("saved"));
  }
  // The best of plans has the lowest peak.
  CHECK(read.at("best").at("figure") == "memory.peak");
  CHECK(read.at("best").at("cases") == nlohmann::json{cases.at(1).at("id")});
  CHECK(shown.at("best") == "4");

  // The table has the values, and is sorted by them.
  std::vector<std::pair<std::int64_t, std::string>> by_saved;
  for (const nlohmann::json& one : read.at("cases")) {
    by_saved.emplace_back(one.at("result").at("memory").at("saved"), one.at("id"));
    const std::string title = fmt::format("{} bytes", by_saved.back().first);
    CHECK(std::ranges::find(shown.at("titles"), nlohmann::json(title)) != shown.at("titles").end());
  }
  std::ranges::sort(by_saved);
  std::vector<std::string> expected;
  for (const auto& [saved, id] : by_saved) expected.push_back(id);
  CHECK(sorted_cases(folder, "memory.saved", 1) == nlohmann::json(expected));
  std::ranges::reverse(expected);
  CHECK(sorted_cases(folder, "memory.saved", 2) == nlohmann::json(expected));
}

TEST_CASE("sweep: the table shows a setting of one case alone, and hides columns that are the same everywhere") {
  const TemporaryFolder folder;
  write_inputs(folder,
               "command: plan\nconfig: c.yaml\noutput: {dir: out}\n"
               "cases: [{memory.policy: exact}, {memory.policy: exact, train.seed: 20240229}]\n");
  REQUIRE(sweep(folder).code == 0);
  const std::string dom = browse(folder, "out/sweep.html");
  if (dom.empty()) return;
  const std::string values = section_of(dom, "values"), head = values.substr(0, values.find("</thead>"));
  check_says(head, "train.seed");
  for (const char* const alike : {"memory.policy", "memory.saved", ">parameters"})
    CHECK_MESSAGE(head.find(alike) == std::string::npos, alike);
  check_says(dom, " columns that are the same everywhere");
  check_says(dom, "<td class=\"\">20240229</td>");  // as it was written
}

TEST_CASE("sweep: speed against bytes has a point per case") {
  const TemporaryFolder folder;
  write_inputs(folder,
               "command: bench\nconfig: c.yaml\narguments: [--steps, 1]\noutput: {dir: out}\n"
               "cases: [{memory.policy: exact}, {memory.policy: keep}]\n");
  REQUIRE(sweep(folder).code == 0);
  const nlohmann::json cases = read_json(folder / "out/sweep.json").at("cases");
  const nlohmann::json points = evaluate(folder, "out/sweep.html", charts + "return points('speed');");
  if (points.is_null()) return;
  REQUIRE(points.size() == 2);  // a series per policy
  for (std::size_t i = 0; i < 2; ++i) {
    const nlohmann::json& result = cases.at(i).at("result");
    CHECK(points.at(i).at(0) == result.at("memory").at("peak").get<double>() / (1 << 20));
    CHECK(points.at(i).at(1) == result.at("samples_per_second"));
  }
}

TEST_CASE("sweep: seeds are one row, mean and deviation, and the best row is named") {
  const TemporaryFolder folder;
  write_inputs(folder,
               "command: train\nconfig: c.yaml\ngrid: {optimizer.lr: [1e-3, 1e-2]}\nseeds: [1, 2, 3]\n"
               "output: {dir: out}\noverrides: {train.epochs: 3, data.val_size: 50}\n");
  const CommandResult result = sweep(folder);
  INFO(result.out, result.error);
  REQUIRE(result.code == 0);
  const nlohmann::json read = read_json(folder / "out/sweep.json"), cases = read.at("cases");
  REQUIRE(cases.size() == 6);
  double means[2]{};
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(cases.at(i).at("overrides").at("train.seed") == i % 3 + 1);
    means[i / 3] += cases.at(i).at("result").at("best").at("value").get<double>() / 3;
  }
  check_says(result.out, "[2/6] lr 0.001 · seed 2 started\n");
  check_says(result.out, " left for 5 cases\n");
  check_says(result.out, fmt::format("{:.2f} % ± ", 100 * means[0]));
  if (means[0] != means[1]) {
    const std::size_t best = means[1] > means[0] ? 1 : 0;
    CHECK(read.at("best").at("cases").at(0) == cases.at(3 * best).at("id"));
    check_says(result.out, fmt::format("\nbest: lr {} · 3 seeds: best val accuracy {:.2f} %", best == 1 ? 0.01 : 0.001,
                                       100 * means[best]));
  }
  const nlohmann::json shown =
      evaluate(folder, "out/sweep.html",
               charts +
                   "return {rows: document.querySelectorAll('#results tbody tr').length, names: "
                   "[...document.querySelectorAll('#curves .legend button')].map(b => b.textContent)};");
  if (shown.is_null()) return;
  CHECK(shown.at("rows") == 2);
  CHECK(shown.at("names") == nlohmann::json{"lr 0.001 · 3 seeds", "lr 0.01 · 3 seeds"});
}

}  // namespace lacuna::test
