// Reports: labels, settings, and the page as a browser builds it.
#include "tests/apps/report/page.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

namespace lacuna::test {
namespace {

namespace fs = std::filesystem;

/// In pixels, of a chart's 330.
double height_of(const Attributes& curve) {
  double least = 330, most = 0;
  std::istringstream points(curve.at("points"));
  for (std::string point; points >> point;) {
    const double y = std::stod(point.substr(point.find(',') + 1));
    least = std::min(least, y);
    most = std::max(most, y);
  }
  return most - least;
}

}  // namespace

TEST_CASE("report: what auto chose is no setting of the run") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", plain_vit);
  for (const char* const budget : {"12KiB", "14KiB"})
    REQUIRE(run_command(folder, {"train", "-c", "c.yaml", "train.steps=1", fmt::format("output.dir={}", budget),
                                 fmt::format("memory={{policy: auto, budget: {}, budget_of: saved}}", budget)})
                .code == 0);
  CHECK(read_file(folder / "12KiB/plan.json").find("blocks.") != std::string::npos);
  const CommandResult result = run_command(folder, {"report", "12KiB", "14KiB"});
  INFO(result.out, result.error);
  REQUIRE(result.code == 0);
  CHECK(result.out.find("memory.budget") != std::string::npos);
  CHECK(result.out.find("memory.recompute") == std::string::npos);
  const std::string page = read_file(folder / "report.html");
  CHECK(page.find("\"label\":\"12KiB: budget 12KiB\"") != std::string::npos);
  const std::string dom = browse(folder, "report.html");
  if (dom.empty()) return;
  // A run has one colour, in the bars of its layers and in its curves.
  const auto curves = elements(dom, "polyline", "curve");
  REQUIRE(curves.size() == 2 * 2);
  CHECK(curves[0].at("stroke") != curves[1].at("stroke"));
  for (const auto& bar : elements(dom, "rect", "bar"))
    if (bar.contains("data-path") && bar.at("data-case") == curves[0].at("data-case"))
      CHECK(bar.at("fill") == curves[0].at("stroke"));
}

TEST_CASE("report: training runs on one page") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", plain_vit);
  for (const char* const name : {"one", "two"})
    REQUIRE(run_command(folder, {"train", "-c", "c.yaml", fmt::format("output.dir={}", name),
                                 fmt::format("memory.policy={}", name == std::string("one") ? "exact" : "mesa")})
                .code == 0);
  const CommandResult alone = run_command(folder, {"report", "one"});
  CHECK(alone.code == 0);
  CHECK(alone.out.starts_with("run "));
  CHECK(read_file(folder / "one/report.html").find("\"label\":\"one\"") != std::string::npos);
  fs::remove(folder / "two/summary.json");  // a run that still goes on
  const CommandResult result = run_command(folder, {"report", "one", "two", "-o", "both.html"});
  INFO(result.error);
  REQUIRE(result.code == 0);
  // What tells them apart stands beside their folders.
  CHECK(result.out.find("memory.policy") != std::string::npos);
  const std::string page = read_file(folder / "both.html");
  fs::create_directory_symlink("one", folder / "link");
  CHECK(run_command(folder, {"report", "one", "two", "link"}).error ==
        "lacuna: one and link are one run; give it once\n");
  const CommandResult twice = run_command(folder, {"report", "one", "./one"});
  CHECK(twice.code == 2);
  CHECK(twice.error == "lacuna: the run one is given twice; give each run once\n");
  CHECK(page.find("\"label\":\"one: exact · finished\"") != std::string::npos);
  CHECK(page.find("mesa · ") != std::string::npos);
  CHECK(page.find("\"csv\":\"\"") != std::string::npos);  // it names no file that is not there
  CHECK(page.find("unfinished\"") != std::string::npos);
  write_file(folder / "two/summary.json", "{\"a\":");
  const CommandResult damaged = run_command(folder, {"report", "one", "two"});
  CHECK(damaged.out.find("unfinished") != std::string::npos);
  CHECK(damaged.error.find("two/summary.json is damaged") != std::string::npos);
  CHECK(run_command(folder, {"report", "nowhere"}).error.find("nowhere does not exist") != std::string::npos);
  // Of its folder a label has what tells it from the others' folders.
  fs::create_directory(folder / "exp");
  for (const char* const name : {"one", "two"}) fs::rename(folder / name, folder / "exp" / name);
  REQUIRE(run_command(folder, {"report", "exp/one", "exp/two/", "-o", "both.html"}).code == 0);
  CHECK(read_file(folder / "both.html").find("\"label\":\"one: exact · finished\"") != std::string::npos);
  CHECK(read_file(folder / "both.html").find("\"label\":\"two: mesa · unfinished\"") != std::string::npos);
  const std::string dom = browse(folder, "both.html");
  if (dom.empty()) return;
  CHECK(dom.find("title=\"exp/one · exact · finished\"") != std::string::npos);       // of the legend
  CHECK(dom.find("<title>exp/one · exact · finished</title>") != std::string::npos);  // of a bar
  CHECK(elements(dom, "polyline", "curve").size() == 2 * 2);
  CHECK(dom.find("2 runs") != std::string::npos);
  CHECK(dom.find("Not known yet: two: mesa · unfinished. ") != std::string::npos);
}

TEST_CASE("report: a run is finished that reached its end, and its figures are of what it has done by now") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", plain_vit);
  // Whether it is finished, and after how many steps.
  const auto told = [&] {
    REQUIRE(run_command(folder, {"report", "r", "finished", "--json", "r.json"}).code == 0);
    const bool is_unfinished = read_file(folder / "report.html").find("unfinished") != std::string::npos;
    return std::pair(!is_unfinished, read_json(folder / "r.json").at(0).at("result").at("steps").get<int>());
  };
  const auto begin = [&](const char* const name) {
    REQUIRE(run_command(folder, {"train", "-c", "c.yaml", "output={dir: " + std::string(name) + "}", "train.steps=2"})
                .code == 0);
  };
  begin("finished");
  begin("r");
  CHECK(told() == std::pair(true, 2));
  const CommandResult failed = run_command(folder, {"train", "--resume", "r", "train.steps=9", "optimizer.lr=1e30"});
  INFO(failed.error);
  REQUIRE(failed.code == 1);
  const auto [is_finished, steps] = told();
  CHECK(!is_finished);
  CHECK(steps > 2);
  fs::remove_all(folder / "r");
  CommandRun training(folder, {"train", "-c", "c.yaml", "output.dir=r", "train.epochs=10000"});
  while (training.running() && !fs::exists(folder / "r/last"))
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  training.signal(SIGINT);
  CHECK(training.wait().code == 130);
  CHECK(!told().first);
  CHECK(read_json(folder / "r/summary.json").at("stopped") == true);
}

TEST_CASE("train: a validation loss that is not finite ends the run, and nothing is saved of it") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", plain_vit);
  const CommandResult result = run_command(
      folder, {"train", "-c", "c.yaml", "output.dir=r", "train.steps=1", "optimizer={name: sgd, lr: 1e25}"});
  INFO(result.out, result.error);
  CHECK(result.code == 1);
  CHECK(result.error.find("after step 1 the validation loss") != std::string::npos);
  CHECK(!fs::exists(folder / "r/last"));
}

TEST_CASE("report: lines and figures that something else wrote are passed over") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", plain_vit);
  REQUIRE(run_command(folder, {"train", "-c", "c.yaml", "output.dir=r"}).code == 0);
  fs::remove(folder / "r/summary.json");
  for (const std::string_view lines :
       {R"({"step":1,"val_loss":1})", R"({"step":1,"val_loss":1,"epoch":"x","peak":"much","val_accuracy":[1]})",
        R"({"step":"1","val_loss":1})", R"([1])"}) {
    write_file(folder / "r/metrics.jsonl", std::string(lines) + "\n");
    const CommandResult result = run_command(folder, {"report", "r", "--json", "r.json"});
    INFO(lines, result.out, result.error);
    CHECK(result.code == 0);
    const nlohmann::json figures = read_json(folder / "r.json").at(0).at("result");
    CHECK(figures == (lines.starts_with(R"({"step":1,)") ? nlohmann::json{{"steps", 1}, {"val_loss", 1}}
                                                         : nlohmann::json::object()));
  }
  write_file(folder / "r/summary.json", R"({"memory":{"peak":"much"},"val_accuracy":[1]})");
  const CommandResult result = run_command(folder, {"report", "r"});
  CHECK(result.code == 0);
  CHECK(result.out.find("much") != std::string::npos);
}

TEST_CASE("report: a run that saved in no layer leaves the page whole") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", plain_vit);
  REQUIRE(run_command(folder, {"train", "-c", "c.yaml", "output.dir=r"}).code == 0);
  nlohmann::json summary = read_json(folder / "r/summary.json");
  summary["saved_by_path"] = nlohmann::json::object();
  write_file(folder / "r/summary.json", summary.dump());
  REQUIRE(run_command(folder, {"report", "r"}).code == 0);
  const std::string dom = browse(folder, "r/report.html");
  if (dom.empty()) return;
  CHECK(dom.find("<section id=\"layers\"") == std::string::npos);
  CHECK(elements(dom, "polyline", "curve").size() == 2);
  CHECK(elements(section_of(dom, "values"), "tr", "").size() == 2);
}

TEST_CASE("report: under the pointer are a step and what the runs that came to it say of it") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", plain_vit);
  for (const auto& [name, epochs] : {std::pair{"short", 1}, std::pair{"long", 3}})
    REQUIRE(run_command(folder, {"train", "-c", "c.yaml", fmt::format("output.dir={}", name),
                                 fmt::format("train.epochs={}", epochs), "schedule.warmup_epochs=0"})
                .code == 0);
  REQUIRE(run_command(folder, {"report", "short", "long"}).code == 0);
  const auto losses = [&](const char* name) {
    std::vector<std::string> text;
    for (const std::string& line : lines_of(read_file(folder / name / "metrics.jsonl")))
      if (const nlohmann::json noted = nlohmann::json::parse(line); noted.contains("loss"))
        text.push_back(fmt::format("{:.4f}", noted.at("loss").get<double>()));
    return text;
  };
  // At the right end, and at the third step of twelve; the axis goes 8 % beyond the last one.
  const std::string dom =
      browse_after(folder, "report.html",
                   "const sheet = document.querySelector('#loss .sheet'), box = sheet.getBoundingClientRect();"
                   "for (const share of [1, 3 / 12 / 1.08]) {"
                   "  sheet.dispatchEvent(new PointerEvent('pointermove', {clientX: box.left + share * box.width, "
                   "clientY: box.top}));"
                   "  const told = document.createElement('pre');"
                   "  told.textContent = [...document.getElementById('tip').children].map(row => row.children.length"
                   "    ? row.children[0].textContent.split(':')[0] + ' ' + row.children[1].textContent : "
                   "row.textContent).join(', ');"
                   "  document.body.append(told);"
                   "}");
  if (dom.empty()) return;
  const std::vector<std::string> of_short = losses("short"), of_long = losses("long");
  REQUIRE(of_long.size() == 12);
  CHECK(dom.find(fmt::format("<pre>step 12, long {}</pre>", of_long[11])) != std::string::npos);
  CHECK(dom.find(fmt::format("<pre>step 3, short {}, long {}</pre>", of_short[2], of_long[2])) != std::string::npos);
}

TEST_CASE("report: a page that cannot be written is refused before the runs are read") {
  const TemporaryFolder folder;
  const CommandResult none = run_command(folder, {"report", "nowhere", "-o", "no/page.html"});
  CHECK(none.code == 2);
  CHECK(none.error.starts_with("lacuna: cannot create no/page.html: "));
  const CommandResult dash = run_command(folder, {"report", "nowhere", "-o", "-"});
  CHECK(dash.code == 2);
  CHECK(dash.error == "lacuna: -o -: expected a file; a page is not written to standard output\n");
  CHECK(run_command(folder, {"report", "nowhere", "-o", "page.html"}).code == 2);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.path()))
    CHECK(entry.path().filename().string().find("page.html") == std::string::npos);
}

TEST_CASE("report: a name that is not ASCII leaves the columns of the table under each other") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", plain_vit);
  for (const char* const name : {"größe", "plain"})
    REQUIRE(run_command(folder, {"train", "-c", "c.yaml", "train.steps=1", fmt::format("output.dir={}", name)}).code ==
            0);
  const std::vector<std::string> table = lines_of(run_command(folder, {"report", "größe", "plain"}).out);
  REQUIRE(table.size() >= 3);
  CHECK(table[1].starts_with("größe "));
  // The last column is aligned to the right.
  const auto characters = [](const std::string& line) {
    return std::ranges::count_if(line, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
  };
  for (std::size_t row = 1; row < 3; ++row) CHECK(characters(table[row]) == characters(table[0]));
}

TEST_CASE("report: a run that diverges leaves the others' curves their height") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", plain_vit);
  for (const char* const name : {"good", "bad"})
    REQUIRE(run_command(folder, {"train", "-c", "c.yaml", fmt::format("output.dir={}", name)}).code == 0);
  std::string lines;
  for (const std::string& line : lines_of(read_file(folder / "bad/metrics.jsonl"))) {
    nlohmann::json json = nlohmann::json::parse(line);
    for (const char* const key : {"loss", "val_loss"})
      if (json.contains(key)) json[key] = json[key].get<double>() * std::pow(4, json.at("step").get<int>());
    lines += json.dump() + "\n";
  }
  write_file(folder / "bad/metrics.jsonl", lines);
  REQUIRE(run_command(folder, {"report", "good", "bad", "-o", "both.html"}).code == 0);
  const std::string dom = browse(folder, "both.html");
  if (dom.empty()) return;
  // The good run's line in the chart of losses takes more than a tenth of its 330 pixels.
  CHECK(height_of(elements(dom, "polyline", "curve").at(0)) > 33);
  CHECK(dom.find("bad (diverges)") != std::string::npos);
  CHECK(dom.find("good (diverges)") == std::string::npos);
  CHECK(dom.find(">Above the chart lie values up to ") != std::string::npos);
}

TEST_CASE("report: a bad validation leaves the training curves their height, and is told of") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", plain_vit);
  REQUIRE(run_command(folder, {"train", "-c", "c.yaml", "output.dir=run"}).code == 0);
  REQUIRE(run_command(folder, {"report", "run"}).code == 0);
  const std::string sound = browse(folder, "run/report.html");
  std::string lines;
  for (const std::string& line : lines_of(read_file(folder / "run/metrics.jsonl"))) {
    nlohmann::json json = nlohmann::json::parse(line);
    if (json.contains("val_loss") && json.at("epoch") == 1) json["val_loss"] = 87.5;
    lines += json.dump() + "\n";
  }
  write_file(folder / "run/metrics.jsonl", lines);
  REQUIRE(run_command(folder, {"report", "run"}).code == 0);
  const std::string dom = browse(folder, "run/report.html");
  if (dom.empty()) return;
  const std::string told =
      ">Above the chart lie values up to 87.50; ▲: a validation, with its value under the pointer.<";
  CHECK(sound.find(">Above the chart") == std::string::npos);
  CHECK(dom.find(told) != std::string::npos);
  const auto above = elements(dom, "path", "above");
  REQUIRE(above.size() == 1);
  CHECK(above.front().at("data-value") == "87.5");
  CHECK(above.front().at("aria-label") == "run, step 4, validation loss 87.5000");
  CHECK(height_of(elements(dom, "polyline", "curve").at(0)) > 33);
}

}  // namespace lacuna::test
