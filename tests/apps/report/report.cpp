// Reports: labels, settings, and the page as a browser builds it.
#include "tests/apps/report/page.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

namespace lacuna::test {
namespace {

namespace fs = std::filesystem;

/// The values that metrics.jsonl has for `key`, with their steps, as a chart's points.
std::vector<double> noted(const fs::path& run, const char* key, double scale = 1) {
  std::vector<double> values;
  for (const std::string& line : lines_of(read_file(run / "metrics.jsonl")))
    if (const nlohmann::json json = nlohmann::json::parse(line); json.contains(key))
      for (const double value : {json.at("step").get<double>(), scale * json.at(key).get<double>()})
        values.push_back(value);
  return values;
}

void check_points(const nlohmann::json& shown, const std::vector<double>& expected) {
  REQUIRE(shown.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(shown.at(i).get<double>() == doctest::Approx(expected[i]).epsilon(1e-5));
}

}  // namespace

TEST_CASE("report: what auto chose is no setting of the run") {
  const TemporaryFolder folder(plain_vit);
  for (const char* const budget : {"12KiB", "14KiB"})
    test::run(folder, {"train", "-c", "c.yaml", "train.steps=1", fmt::format("output.dir={}", budget),
                       fmt::format("memory={{policy: auto, budget: {}, budget_of: saved}}", budget)});
  check_says(read_file(folder / "12KiB/plan.json"), "blocks.");
  const CommandResult result = run_command(folder, {"report", "12KiB", "14KiB"});
  INFO(result.out, result.error);
  REQUIRE(result.code == 0);
  check_says(result.out, "memory.budget");
  CHECK(result.out.find("memory.recompute") == std::string::npos);
  const std::string page = read_file(folder / "report.html");
  check_says(page, "\"label\":\"12KiB: budget 12KiB\"");
}

TEST_CASE("report: ranges, sensitivities and bits of saved tensors over training") {
  const TemporaryFolder folder(
      "model: {name: vit, image_size: 16, patch_size: 4, embed_dim: 32, depth: 2, num_heads: 2}\n"
      "data: {name: shapes, train_size: 64, val_size: 16}\n"
      "train: {epochs: 3, batch_size: 16, threads: 1}\n");
  for (const char* const memory : {"{policy: mesa}", "{policy: adaptive, bits: 2, measure_every: 4}"})
    test::run(folder, {"train", "-c", "c.yaml", fmt::format("memory={}", memory),
                       fmt::format("output.dir={}", memory[9] == 'm' ? "ranges" : "bits")});
  std::map<std::string, std::vector<double>> noted;  // by run: the steps that tell something
  for (const std::string run : {"ranges", "bits"})
    for (const std::string& line : lines_of(read_file(folder / run / "metrics.jsonl"))) {
      const nlohmann::json json = nlohmann::json::parse(line);
      CHECK(json.contains("measuring") == json.contains("quantization_variance"));
      if (json.contains("quantization_variance")) CHECK(json.at("quantization_variance") > 0);
      if (!json.contains("tensors")) continue;
      noted[run].push_back(json.at("step"));
      CHECK(json.at("tensors").size() > 4);
      for (const auto& [key, figures] : json.at("tensors").items()) {
        CHECK(key.find(' ') != std::string::npos);
        if (run == "ranges") CHECK(figures.at("min") < figures.at("max"));
        if (run == "bits") CHECK(figures.at("bits") >= 1);
      }
    }
  CHECK(noted["ranges"] == std::vector<double>{4, 8, 12});  // at evaluations
  CHECK(noted["bits"].size() > 3);                          // and where it was measured
  test::run(folder, {"report", "ranges", "bits", "-o", "page.html"});
  const nlohmann::json page = evaluate(
      folder, "page.html",
      charts +
          "const selects = () => [...document.querySelectorAll('#tensors select')];"
          "const first = points('tensors'), names = [...document.querySelectorAll('#tensors .legend button')].length;"
          "selects()[0].value = '1'; selects()[0].dispatchEvent(new Event('change'));"
          "return {first, names, figures: [...selects()[1].options].map(o => o.value), second: points('tensors')}");
  if (page.is_null()) return;
  CHECK(page.at("first").size() == page.at("names"));
  for (const char* const part : {"first", "second"}) {
    const std::vector<double>& steps = noted[part == std::string("first") ? "ranges" : "bits"];
    REQUIRE(!page.at(part).empty());
    const nlohmann::json& line = page.at(part).at(0);
    REQUIRE(line.size() == 2 * steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) CHECK(line.at(2 * i) == steps[i]);
  }
  CHECK(page.at("figures") == nlohmann::json{"bits", "sensitivity"});
}

TEST_CASE("report: training runs on one page") {
  const TemporaryFolder folder(plain_vit);
  for (const char* const name : {"one", "two"})
    test::run(folder, {"train", "-c", "c.yaml", fmt::format("output.dir={}", name),
                       fmt::format("memory.policy={}", name == std::string("one") ? "exact" : "mesa")});
  const CommandResult alone = run_command(folder, {"report", "one"});
  CHECK(alone.code == 0);
  CHECK(alone.out.starts_with("run "));
  check_says(read_file(folder / "one/report.html"), "\"label\":\"one\"");
  fs::remove(folder / "two/summary.json");  // a run that still goes on
  const CommandResult result = test::run(folder, {"report", "one", "two", "-o", "both.html"});
  // The keys in which the runs differ are shown beside their folders.
  check_says(result.out, "memory.policy");
  const std::string page = read_file(folder / "both.html");
  fs::create_directory_symlink("one", folder / "link");
  CHECK(run_command(folder, {"report", "one", "two", "link"}).error ==
        "lacuna: one and link are one run; give it once\n");
  check_refused(folder, {"report", "one", "./one"}, {"the run one is given twice"});
  check_says(page, "\"label\":\"one: exact\"");
  check_says(page, "mesa · ");
  check_says(page, "\"csv\":\"\"");  // it names no file that is not there
  check_says(page, "unfinished\"");
  write_file(folder / "two/summary.json", "{\"a\":");
  const CommandResult damaged = run_command(folder, {"report", "one", "two"});
  check_says(damaged.out, "unfinished");
  check_says(damaged.error, "two/summary.json");
  write_file(folder / "two/record.json", "[1]");
  const CommandResult no_record = run_command(folder, {"report", "one", "two"});
  CHECK(no_record.code == 0);
  check_says(no_record.error, "two/record.json");
  CHECK(no_record.error.find("one/record.json") == std::string::npos);
  check_says(run_command(folder, {"report", "nowhere"}).error, "nowhere does not exist");
  // A label shows the part of its folder that differs from the others' folders.
  fs::create_directory(folder / "exp");
  for (const char* const name : {"one", "two"}) fs::rename(folder / name, folder / "exp" / name);
  test::run(folder, {"report", "exp/one", "exp/two/", "-o", "both.html"});
  check_says(read_file(folder / "both.html"), "\"label\":\"one: exact\"");
  check_says(read_file(folder / "both.html"), "\"label\":\"two: mesa · unfinished\"");
  for (const char* const size : {"1280,900", "800,900"}) {
    const nlohmann::json page_state = evaluate(
        folder, "both.html",
        charts +
            "const root = document.documentElement, drawn = canvas => canvas.getContext('2d').getImageData(0, 0, "
            "canvas.width, canvas.height).data.some(v => v > 0);"
            "const canvases = [...document.querySelectorAll('canvas')], visible = () => ['curve-loss', "
            "'curve-lr'].map(id => chart(id).data.datasets.filter((d, i) => chart(id).isDatasetVisible(i)).map(d "
            "=> d.entity));"
            "const before = visible(), button = document.querySelectorAll('#curves .legend button')[1];"
            "button.click();"
            "const hidden = visible(); button.click();"
            "return {overflow: root.scrollWidth - root.clientWidth, canvases: canvases.length, drawn: "
            "canvases.filter(drawn).length, name: button.textContent, before, hidden, after: visible(),"
            "titles: [...document.querySelectorAll('h2')].map(h => h.textContent), losses: points('curve-loss'), "
            "accuracies: points('curve-accuracy')}",
        size);
    if (page_state.is_null()) return;
    CHECK(page_state.at("overflow") == 0);
    // Peak, timelines of two runs and their bars, layers, ranges of one, and six curves: loss, two metrics, rate,
    // gradient norm, speed. Only one run knows its final figures.
    CHECK(page_state.at("canvases") == 1 + 3 + 1 + 1 + 6);
    CHECK(page_state.at("drawn") == page_state.at("canvases"));
    CHECK(page_state.at("titles").at(0) == "Results");
    CHECK(page_state.at("name") == "two: mesa · unfinished");
    CHECK(page_state.at("after") == page_state.at("before"));
    CHECK(page_state.at("before").at(1) == nlohmann::json{0, 1});
    CHECK(page_state.at("hidden").at(1) == nlohmann::json{0});
    for (const auto& entity : page_state.at("hidden").at(0)) CHECK(entity == 0);
    const nlohmann::json& losses = page_state.at("losses");  // of each run, training and then validation
    REQUIRE(losses.size() == 2 * 2);
    check_points(losses.at(0), noted(folder / "exp/one", "loss"));
    check_points(losses.at(1), noted(folder / "exp/one", "val_loss"));
    check_points(losses.at(2), noted(folder / "exp/two", "loss"));
    check_points(page_state.at("accuracies").at(0), noted(folder / "exp/one", "accuracy", 100));
  }
}

TEST_CASE("report: bars at the peak add up to it, and a run's page begins with its figures and configuration") {
  const TemporaryFolder folder(plain_vit);
  test::run(folder, {"train", "-c", "c.yaml", "output.dir=r"});
  write_file(folder / "r/record.json",
             R"({"sessions": [{"command": "lacuna train -c <c>.yaml", "version": "1.2", "outcome": "stopped"},
                              {"command": "lacuna train --resume r", "version": "1.3", "outcome": "finished"}]})");
  test::run(folder, {"report", "r"});
  const nlohmann::json summary = read_json(folder / "r/summary.json");
  const nlohmann::json shown =
      evaluate(folder, "r/report.html",
               charts +
                   "return {bytes: chart('peak').data.datasets.map(d => [d.label, d.bytes[0]]), facts: "
                   "document.querySelector('#results .facts').textContent, configuration: "
                   "document.querySelector('#results details pre').textContent, record: "
                   "[...document.querySelectorAll('#results .record dd')].map(dd => dd.textContent)};");
  if (shown.is_null()) return;
  CHECK(shown.at("record") ==
        nlohmann::json{"lacuna train -c <c>.yaml", "stopped", "lacuna train --resume r", "finished", "1.3", ""});
  std::int64_t sum = 0;
  for (const auto& bar : shown.at("bytes")) {
    CHECK(summary.at("at_peak").at(bar.at(0).get<std::string>()) == bar.at(1));
    sum += bar.at(1).get<std::int64_t>();
  }
  CHECK(sum == summary.at("memory").at("peak"));
  check_says(shown.at("facts").get<std::string>(), "best val accuracy");
  CHECK(shown.at("configuration") == read_file(folder / "r/config.yaml"));
}

TEST_CASE("report: curves go by step, epoch or time, and runs of several seeds are a mean with a band") {
  const TemporaryFolder folder(plain_vit);
  for (const char* const seed : {"1", "2", "3"})
    test::run(folder,
              {"train", "-c", "c.yaml", fmt::format("output.dir={}", seed), fmt::format("train.seed={}", seed)});
  const CommandResult result = test::run(folder, {"report", "1", "2", "3"});
  CHECK(lines_of(result.out).at(1).starts_with("3 seeds "));
  check_says(result.out, " ± ");
  const nlohmann::json shown = evaluate(
      folder, "report.html",
      charts +
          "const choose = x => { const select = document.querySelector('#curves select'); select.value = x; "
          "select.dispatchEvent(new Event('change')); return points('curve-loss')[0].filter((_, i) => i % 2 === 0); };"
          "const sets = () => chart('curve-loss').data.datasets;"
          "const seeds = sets().map(d => d.data), all = {mean: seeds[0], high: sets()[2].data, low: sets()[3].data,"
          "steps: choose('step'), epochs: choose('epoch'), minutes: choose('time')};"
          "document.querySelector('#curves input').click();"
          "return {...all, runs: document.querySelectorAll('#curves .legend button').length};");
  if (shown.is_null()) return;
  std::vector<std::vector<double>> losses;
  double seconds = 0;
  for (const char* const seed : {"1", "2", "3"}) {
    losses.push_back(noted(folder / seed, "loss"));
    const std::vector<double> all = noted(folder / seed, "seconds");
    for (std::size_t i = 1; i < all.size() - 2; i += 2) seconds += all[i] / 3;  // without the last evaluation
  }
  REQUIRE(shown.at("mean").size() == 8);
  for (std::size_t i = 0; i < 8; ++i) {
    double mean = 0, squares = 0;
    for (const auto& loss : losses) mean += loss[2 * i + 1] / 3;
    for (const auto& loss : losses) squares += std::pow(loss[2 * i + 1] - mean, 2);
    CHECK(shown.at("mean").at(i).at("y").get<double>() == doctest::Approx(mean).epsilon(1e-5));
    for (const auto& [edge, sign] : {std::pair{"high", 1.}, std::pair{"low", -1.}})
      CHECK(shown.at(edge).at(i).at("y").get<double>() ==
            doctest::Approx(mean + sign * std::sqrt(squares / 2)).epsilon(1e-4));
  }
  CHECK(shown.at("steps") == nlohmann::json{1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(shown.at("epochs") == nlohmann::json{0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2});
  CHECK(shown.at("minutes").back().get<double>() == doctest::Approx(seconds / 60).epsilon(1e-3));
  CHECK(shown.at("runs") == 3);
}

TEST_CASE("report: a run is finished that reached its end, and its figures are of what it has done by now") {
  const TemporaryFolder folder(plain_vit);
  // Whether it is finished, and after how many steps.
  const auto told = [&] {
    test::run(folder, {"report", "r", "finished", "--json", "r.json"});
    const bool is_unfinished = read_file(folder / "report.html").find("unfinished") != std::string::npos;
    return std::pair(!is_unfinished, read_json(folder / "r.json").at(0).at("result").at("steps").get<int>());
  };
  const auto begin = [&](const char* const name) {
    test::run(folder, {"train", "-c", "c.yaml", "output={dir: " + std::string(name) + "}", "train.steps=2"});
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
  const TemporaryFolder folder(plain_vit);
  const CommandResult result = run_command(
      folder, {"train", "-c", "c.yaml", "output.dir=r", "train.steps=1", "optimizer={name: sgd, lr: 1e25}"});
  INFO(result.out, result.error);
  CHECK(result.code == 1);
  check_says(result.error, "after step 1 the validation loss");
  CHECK(!fs::exists(folder / "r/last"));
}

TEST_CASE("report: lines and figures that something else wrote are passed over") {
  const TemporaryFolder folder(plain_vit);
  test::run(folder, {"train", "-c", "c.yaml", "output.dir=r"});
  fs::remove(folder / "r/summary.json");
  for (const std::string_view lines : {R"({"step":1,"val_loss":1})", R"({"step":1,"val_loss":1,"seconds":1e-310})",
                                       R"({"step":1,"val_loss":1,"epoch":"x","peak":"much","val_accuracy":[1]})",
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
  check_says(result.out, "much");
}

TEST_CASE("report: a run that saved in no layer leaves the page whole") {
  const TemporaryFolder folder(plain_vit);
  test::run(folder, {"train", "-c", "c.yaml", "output.dir=r"});
  nlohmann::json summary = read_json(folder / "r/summary.json");
  summary["saved_by_path"] = nlohmann::json::object();
  write_file(folder / "r/summary.json", summary.dump());
  test::run(folder, {"report", "r"});
  const nlohmann::json there = evaluate(folder, "r/report.html",
                                        "return ['layers', 'peak', 'curve-loss', 'values'].map(id => "
                                        "document.getElementById(id) !== null);");
  if (!there.is_null()) CHECK(there == nlohmann::json{false, true, true, true});
}

TEST_CASE("report: a page that cannot be written is refused before the runs are read") {
  const TemporaryFolder folder;
  const CommandResult none = run_command(folder, {"report", "nowhere", "-o", "no/page.html"});
  CHECK(none.code == 2);
  CHECK(none.error.starts_with("lacuna: cannot create no/page.html: "));
  const CommandResult dash = run_command(folder, {"report", "nowhere", "-o", "-"});
  CHECK(dash.code == 2);
  CHECK(dash.error.starts_with("lacuna: -o -: expected a file"));
  CHECK(run_command(folder, {"report", "nowhere", "-o", "page.html"}).code == 2);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.path()))
    CHECK(entry.path().filename().string().find("page.html") == std::string::npos);
}

TEST_CASE("report: a name that is not ASCII leaves the columns of the table under each other") {
  const TemporaryFolder folder(plain_vit);
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

TEST_CASE("report: a run that diverges, or a bad validation, leaves the other curves their height") {
  const TemporaryFolder folder(plain_vit);
  for (const char* const name : {"good", "bad"})
    test::run(folder, {"train", "-c", "c.yaml", fmt::format("output.dir={}", name)});
  const auto change = [&](const char* run, const auto& each) {
    std::string lines;
    for (const std::string& line : lines_of(read_file(folder / run / "metrics.jsonl"))) {
      nlohmann::json json = nlohmann::json::parse(line);
      each(json);
      lines += json.dump() + "\n";
    }
    write_file(folder / run / "metrics.jsonl", lines);
  };
  // The top of the chart of losses, and of the whole range.
  const auto tops = [&](const std::vector<std::string>& runs) {
    std::vector<std::string> words{"report", "-o", "page.html"};
    words.insert(words.end(), runs.begin(), runs.end());
    test::run(folder, words);
    return evaluate(folder, "page.html",
                    charts +
                        "const top = chart('curve-loss').scales.y.max, remark = document.querySelector('#curves > "
                        ".note:last-child').textContent; [...document.querySelectorAll('#curves input')].at(-1)."
                        "click(); return [top, chart('curve-loss').scales.y.max, remark];");
  };
  change("bad", [](nlohmann::json& line) {
    for (const char* const key : {"loss", "val_loss"})
      if (line.contains(key)) line[key] = line[key].get<double>() * std::pow(4, line.at("step").get<int>());
  });
  const nlohmann::json diverging = tops({"good", "bad"});
  if (diverging.is_null()) return;
  CHECK(diverging.at(0) < 10);
  CHECK(diverging.at(1) > 1000);
  CHECK(!diverging.at(2).get<std::string>().empty());
  CHECK(tops({"good"}).at(2) == "");
  change("good", [](nlohmann::json& line) {
    if (line.contains("val_loss") && line.at("epoch") == 1) line["val_loss"] = 87.5;
  });
  const nlohmann::json once = tops({"good"});
  CHECK(once.at(0) < 10);
  CHECK(once.at(1) > 80);
}

}  // namespace lacuna::test
