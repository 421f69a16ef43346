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

/// Each purpose of each case has a bar that says its bytes, and all bars have one scale.
void check_bars(const std::string& dom, const nlohmann::json& sweep) {
  std::map<std::pair<std::string, std::string>, Attributes> bars;
  for (Attributes& bar : elements(dom, "rect", "bar"))
    if (bar.contains("data-purpose")) bars[{bar["data-case"], bar["data-purpose"]}] = bar;
  std::map<double, double> widths;  // by bytes
  for (const nlohmann::json& one : sweep.at("cases")) {
    for (const auto& item : one.at("result").at("memory").items()) {
      const std::string& purpose = item.key();
      const nlohmann::json& bytes = item.value();
      if (purpose == "peak" || bytes == 0) continue;
      Attributes& bar = bars[{one.at("id"), purpose}];
      INFO(one.at("id").get<std::string>(), " ", purpose);
      REQUIRE(bar.contains("data-bytes"));
      CHECK(std::stoll(bar["data-bytes"]) == bytes);
      widths[bytes.get<double>()] = std::stod(bar["width"]);
    }
  }
  const double most = widths.rbegin()->first, widest = widths.rbegin()->second;
  constexpr double gap = 0.6, narrowest = 0.4;  // pixels between neighbours, and of what would not be seen
  for (const auto& bar : widths)
    CHECK(bar.second == doctest::Approx(std::max(bar.first / most * (widest + gap) - gap, narrowest)).epsilon(1e-3));
}

/// Each layer's bar says what the case saved in it and in what lies in it, and a case's bars add up to all it saved.
void check_layers(const std::string& dom, const nlohmann::json& sweep) {
  std::map<std::string, std::int64_t> sums;  // by case
  for (Attributes& bar : elements(dom, "rect", "bar")) {
    if (!bar.contains("data-path")) continue;
    const std::int64_t bytes = std::stoll(bar["data-bytes"]);
    const std::string block = bar["data-path"];
    sums[bar["data-case"]] += bytes;
    if (block == "small ones") continue;
    std::int64_t expected = 0;
    for (const nlohmann::json& one : sweep.at("cases"))
      if (one.at("id") == bar["data-case"])
        for (const auto& [path, saved] : one.at("result").at("saved_by_path").items())
          if (path == block || path.starts_with(block + ".")) expected += saved.get<std::int64_t>();
    INFO(block);
    CHECK(bytes == expected);
  }
  CHECK(sums.size() == 2);  // two cases beside each other
  for (const nlohmann::json& one : sweep.at("cases"))
    if (const auto sum = sums.find(one.at("id")); sum != sums.end())
      CHECK(sum->second == one.at("result").at("memory").at("saved"));
}

/// Whether places on an axis, in pixels written to a tenth, go with values as a straight line of this direction does.
void check_straight(const std::vector<double>& values, const std::vector<double>& places, double direction) {
  REQUIRE(values.size() == places.size());
  const auto [least, most] = std::ranges::minmax_element(values);
  REQUIRE(*least < *most);
  const auto place_of = [&](auto value) { return places[static_cast<std::size_t>(value - values.begin())]; };
  const double slope = (place_of(most) - place_of(least)) / (*most - *least);
  CHECK(slope * direction > 0);
  for (std::size_t i = 0; i < values.size(); ++i)
    CHECK(std::abs(place_of(least) + slope * (values[i] - *least) - places[i]) < 0.21);
}

/// The cases as the rows of the table stand after so many clicks on the title of `column`.
std::vector<std::string> sorted_cases(const TemporaryFolder& folder, const std::string& page, const std::string& column,
                                      int clicks) {
  const std::string dom =
      browse_after(folder, page,
                   fmt::format("for (let i = 0; i < {}; ++i) [...document.querySelectorAll('#values th button')]"
                               ".find(b => b.textContent.includes('{}')).click();",
                               clicks, column));
  std::vector<std::string> cases;
  for (const Attributes& row : elements(dom, "tr", ""))
    if (row.contains("data-case")) cases.push_back(row.at("data-case"));
  return cases;
}

}  // namespace

TEST_CASE("sweep: the page shows bars with the right values in a browser") {
  const TemporaryFolder folder;
  write_inputs(folder, plans);
  REQUIRE(sweep(folder).code == 0);
  const std::string page = read_file(folder / "out/sweep.html");
  CHECK(page.find("src=") == std::string::npos);  // nothing comes from elsewhere
  CHECK(page.find("<link") == std::string::npos);
  const std::string dom = browse(folder, "out/sweep.html");
  if (dom.empty()) return;
  const nlohmann::json read = read_json(folder / "out/sweep.json");
  check_bars(dom, read);
  check_layers(dom, read);
  CHECK(elements(dom, "rect", "peak").size() == 4);
  CHECK(dom.find(">Process peaks, up to ") == std::string::npos);  // a plan has none
  CHECK(elements(dom, "tr", "").size() >= 1 + 4);

  // The table has the values, and is sorted by them.
  std::vector<std::pair<std::int64_t, std::string>> by_saved;
  for (const nlohmann::json& one : read.at("cases")) {
    by_saved.emplace_back(one.at("result").at("memory").at("saved"), one.at("id"));
    CHECK(dom.find(fmt::format("title=\"{} bytes\"", by_saved.back().first)) != std::string::npos);
  }
  std::ranges::sort(by_saved);
  std::vector<std::string> expected;
  for (const auto& [saved, id] : by_saved) expected.push_back(id);
  CHECK(sorted_cases(folder, "out/sweep.html", "memory.saved", 1) == expected);
  std::ranges::reverse(expected);
  CHECK(sorted_cases(folder, "out/sweep.html", "memory.saved", 2) == expected);
}

TEST_CASE("sweep: the table shows a setting of one case alone, and hides columns that are the same everywhere") {
  const TemporaryFolder folder;
  write_inputs(folder,
               "command: plan\nconfig: c.yaml\noutput: {dir: out}\n"
               "cases: [{memory.policy: exact}, {memory.policy: exact, train.seed: 20240229}]\n");
  REQUIRE(sweep(folder).code == 0);
  const std::string dom = browse(folder, "out/sweep.html");
  if (dom.empty()) return;
  const std::string head = dom.substr(dom.find("<thead"), dom.find("</thead>") - dom.find("<thead"));
  CHECK(head.find("train.seed") != std::string::npos);
  for (const char* const alike : {"memory.policy", "memory.saved", ">parameters"})
    CHECK_MESSAGE(head.find(alike) == std::string::npos, alike);
  CHECK(dom.find(" columns that are the same everywhere") != std::string::npos);
  CHECK(dom.find("<td class=\"\">20240229</td>") != std::string::npos);  // as it was written
}

TEST_CASE("sweep: the axis of the bars covers all of them, and process peaks that are left out are told of") {
  const TemporaryFolder folder;
  write_inputs(folder,
               "command: bench\nconfig: c.yaml\narguments: [--steps, 1]\noutput: {dir: out}\n"
               "cases: [{memory.policy: exact}, {memory.policy: keep}]\n");
  REQUIRE(sweep(folder).code == 0);
  const nlohmann::json cases = read_json(folder / "out/sweep.json").at("cases");
  for (const char* const size : {"390,900", "1280,900"}) {
    const std::string dom = browse(folder, "out/sweep.html", size);
    if (dom.empty()) return;
    double axis = 0, farthest = 0, peaks = 0;  // of the first chart, which is memory by purpose
    const std::string chart = section_of(dom, "memory");
    for (const Attributes& line : elements(chart, "line", "grid")) axis = std::max(axis, std::stod(line.at("x1")));
    for (const char* const of : {"bar", "peak"})
      for (const Attributes& rect : elements(chart, "rect", of))
        farthest = std::max(farthest, std::stod(rect.at("x")) + std::stod(rect.at("width")));
    CHECK(farthest > 0);
    CHECK(farthest <= axis + 1);  // half a mark's width
    // The program alone takes more than three times such a model.
    CHECK(elements(chart, "circle", "process-peak").empty());
    const std::string told = ">Process peaks, up to ";
    const std::size_t at = chart.find(told);
    REQUIRE(at != std::string::npos);
    for (const nlohmann::json& one : cases)
      peaks = std::max(peaks, one.at("result").at("process_peak").get<double>() / (1 << 20));
    INFO(chart.substr(at, 80));
    CHECK(std::stod(chart.substr(at + told.size())) == doctest::Approx(peaks).epsilon(1e-3));
    // Speed against bytes: a point a case, the one of more bytes to the right of the other, the faster one above.
    const std::vector<Attributes> points = elements(dom, "circle", "point");
    REQUIRE(points.size() == 2);
    std::map<std::string, const nlohmann::json*> results;
    for (const nlohmann::json& one : cases) results[one.at("id")] = &one.at("result");
    for (const Attributes& point : points) {
      const nlohmann::json& result = *results.at(point.at("data-case"));
      CHECK(std::stoll(point.at("data-bytes")) == result.at("memory").at("saved"));
      CHECK(std::stod(point.at("data-value")) ==
            doctest::Approx(result.at("samples_per_second").get<double>()).epsilon(1e-9));
    }
    const auto differs = [&](const char* what, const char* place) {
      return (std::stod(points[0].at(what)) - std::stod(points[1].at(what))) *
             (std::stod(points[0].at(place)) - std::stod(points[1].at(place)));
    };
    CHECK(differs("data-bytes", "cx") > 0);
    CHECK(differs("data-value", "cy") < 0);
  }
}

TEST_CASE("sweep: curves and points stand where the runs' losses and accuracies say") {
  const TemporaryFolder folder;
  write_inputs(folder,
               "command: train\nconfig: c.yaml\ngrid: {memory.policy: [exact, mesa], train.seed: [1, 2]}\n"
               "output: {dir: out}\noverrides: {train.epochs: 4, data.val_size: 50}\n");
  REQUIRE(sweep(folder).code == 0);
  const nlohmann::json cases = read_json(folder / "out/sweep.json").at("cases");
  const std::string dom = browse(folder, "out/sweep.html");
  if (dom.empty()) return;
  for (const auto& [id, what] : {std::pair{"loss", "loss"}, std::pair{"learning", "accuracy"}}) {
    CAPTURE(id);
    const std::vector<Attributes> curves = elements(section_of(dom, id), "polyline", "curve");
    REQUIRE(curves.size() == cases.size());
    std::vector<double> steps, values, across, up;
    for (std::size_t i = 0; i < curves.size(); ++i) {
      CHECK(curves[i].at("data-case") == cases[i].at("id"));
      CHECK(curves[i].at("stroke") == fmt::format("var(--s{})", i));  // a hue each, though two have one policy
      std::istringstream points(curves[i].at("points"));
      for (std::string point; points >> point;) {
        across.push_back(std::stod(point));
        up.push_back(std::stod(point.substr(point.find(',') + 1)));
      }
      for (const std::string& line :
           lines_of(read_file(folder / cases[i].at("run").get<std::string>() / "metrics.jsonl"))) {
        const nlohmann::json noted = nlohmann::json::parse(line);
        if (!noted.contains("loss")) continue;
        steps.push_back(noted.at("step"));
        values.push_back(noted.at(what));
      }
    }
    CHECK(steps.size() == 4 * 16);
    check_straight(steps, across, 1);
    check_straight(values, up, -1);
  }
  const std::vector<Attributes> points = elements(section_of(dom, "accuracy"), "circle", "point");
  REQUIRE(points.size() == cases.size());
  std::vector<double> bytes, across;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const nlohmann::json& result = cases[i].at("result");
    CHECK(points[i].at("data-case") == cases[i].at("id"));
    CHECK(std::stod(points[i].at("data-value")) ==
          doctest::Approx(result.at("val_accuracy").get<double>()).epsilon(1e-12));
    CHECK(points[i]
              .at("aria-label")
              .find(fmt::format("validation accuracy, % {:.2f}, ", 100 * result.at("val_accuracy").get<double>())) !=
          std::string::npos);
    bytes.push_back(result.at("memory").at("saved"));
    across.push_back(std::stod(points[i].at("cx")));
  }
  check_straight(bytes, across, 1);
}

}  // namespace lacuna::test
