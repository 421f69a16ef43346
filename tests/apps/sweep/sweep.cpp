// Sweeps: cases, resumption, failures.
#include "apps/config/experiment.h"
#include "apps/sweep/sweep_file.h"
#include "core/parallel.h"
#include "tests/apps/sweep/sweep_run.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

namespace lacuna::test {
namespace {

namespace fs = std::filesystem;

/// The rows of a CSV file as RFC 4180 has them.
std::vector<std::vector<std::string>> cells_of(const std::string& csv) {
  std::vector<std::vector<std::string>> rows;
  bool quoted = false, row_ended = true;
  for (std::size_t i = 0; i < csv.size(); ++i) {
    if (std::exchange(row_ended, false)) rows.push_back({""});
    const char c = csv[i];
    if (quoted && c == '"' && csv[i + 1] == '"') {
      rows.back().back() += csv[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && c == ',') {
      rows.back().emplace_back();
    } else if (!quoted && csv.compare(i, 2, "\r\n") == 0) {
      row_ended = true;
      ++i;
    } else {
      rows.back().back() += c;
    }
  }
  return rows;
}

}  // namespace

TEST_CASE("sweep: runs each case of a grid once, and again only what has changed") {
  const TemporaryFolder folder;
  write_inputs(folder, plans);
  const CommandResult first = sweep(folder);
  INFO(first.error);
  REQUIRE(first.code == 0);
  check_says(first.out, "4 cases of `lacuna plan`, 0 of them finished already");
  const nlohmann::json all = read_json(folder / "out/sweep.json");
  REQUIRE(all.at("cases").size() == 4);
  const nlohmann::json& one = all.at("cases").at(1);
  CHECK(one.at("overrides") ==
        nlohmann::json{{"train.accumulate", 1}, {"train.batch_size", 4}, {"memory.policy", "exact"}});
  CHECK(one == read_json(folder / fmt::format("out/cases/{}.json", one.at("id").get<std::string>())));
  // A case is what the command itself says.
  CHECK(
      one.at("result") ==
      run_command(folder, {"plan", "-c", "c.yaml", "train.batch_size=4", "memory.policy=exact", "--json", "-"}).json());

  const std::vector<std::string> rows = lines_of(read_file(folder / "out/sweep.csv"));
  REQUIRE(rows.size() == 5);
  CHECK(rows[0].starts_with("id,status,exit_code,config,train.accumulate,train.batch_size,memory.policy,model,"));
  check_says(rows[0], ",memory.saved,");
  CHECK(rows[2].starts_with(fmt::format("{},done,0,c.yaml,1,4,exact,vit,{},", one.at("id").get<std::string>(),
                                        one.at("result").at("device").get<std::string>())));
  check_says(rows[2], fmt::format(",{},", one.at("result").at("memory").at("saved").get<std::int64_t>()));

  const std::string page = read_file(folder / "out/sweep.html");
  const CommandResult second = sweep(folder);
  CHECK(second.code == 0);
  check_says(second.out, "4 of them finished already");
  CHECK(second.out.find("[1/4]") == std::string::npos);
  CHECK(read_json(folder / "out/sweep.json") == all);
  CHECK(read_file(folder / "out/sweep.html") == page);

  fs::remove(folder / fmt::format("out/cases/{}.json", one.at("id").get<std::string>()));
  check_says(sweep(folder, {"--jobs", "3"}).out, "3 of them finished already");
  write_file(folder / "c.yaml", std::string(plain_vit) + "optimizer: {name: sgd, lr: 0.1}\n");
  check_says(sweep(folder).out, "0 of them finished already");
}

TEST_CASE("sweep: saved bytes by path add up to what is saved") {
  const TemporaryFolder folder;
  write_inputs(folder, plans);
  REQUIRE(sweep(folder).code == 0);
  const nlohmann::json read = read_json(folder / "out/sweep.json");
  for (const nlohmann::json& one : read.at("cases")) {
    const nlohmann::json& result = one.at("result");
    std::int64_t sum = 0;
    for (const auto& [path, bytes] : result.at("saved_by_path").items()) sum += bytes.get<std::int64_t>();
    CHECK(sum == result.at("memory").at("saved"));
    CHECK(result.at("saved_by_path").contains("blocks.1.mlp.fc1"));
  }
}

TEST_CASE("sweep: cases store frozen weights in types of their own") {
  const TemporaryFolder folder;
  write_inputs(folder,
               "command: plan\nconfig: c.yaml\n"
               "overrides: {adapter.name: lora, model.embed_dim: 64}\n"
               "grid:\n  freeze.weights: [f32, bf16, [int8], [\"blocks.1.*=nf4\", int8]]\n"
               "output: {dir: out}\n");
  const CommandResult result = sweep(folder);
  INFO(result.error);
  REQUIRE(result.code == 0);
  std::vector<std::set<std::string>> types;
  std::vector<std::int64_t> bytes;
  const nlohmann::json all = read_json(folder / "out/sweep.json");
  for (const nlohmann::json& one : all.at("cases")) {
    std::set<std::string>& of_case = types.emplace_back();
    for (const auto& [type, stored] : one.at("result").at("weights").items()) of_case.insert(type);
    bytes.push_back(one.at("result").at("memory").at("parameters"));
  }
  CHECK(nlohmann::json(types).dump() == R"([["f32"],["bf16","f32"],["f32","int8"],["f32","int8","nf4"]])");
  CHECK(std::ranges::is_sorted(bytes, std::greater()));
}

TEST_CASE("sweep: the CSV gives back what has commas, quotes and line breaks in it") {
  const TemporaryFolder folder;
  const std::string path = "say \"a\", b\r\nand c", plainer = "no, \"";
  write_inputs(folder,
               "command: plan\nconfig: c.yaml\noutput: {dir: out}\n"
               "grid: {data.name: [cifar10], data.path: [\"say \\\"a\\\", b\\r\\nand c\", 'no, \"']}\n"
               "cases: [{train.seed: 1}, {train.seed: x, train.epochs: y}]\n");
  CHECK(sweep(folder).code == 1);
  const nlohmann::json cases = read_json(folder / "out/sweep.json").at("cases");
  const std::vector<std::vector<std::string>> rows = cells_of(read_file(folder / "out/sweep.csv"));
  REQUIRE(rows.size() == 5);
  const auto cell = [&](std::size_t row, const char* title) {
    const auto column = std::ranges::find(rows[0], title);
    REQUIRE(column != rows[0].end());
    return rows[row].at(static_cast<std::size_t>(column - rows[0].begin()));
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CHECK(rows[i + 1].size() == rows[0].size());
    CHECK(cell(i + 1, "data.path") == (i < 2 ? path : plainer));
    CHECK(cell(i + 1, "error") == cases[i].value("error", ""));
    CHECK(cell(i + 1, "status") == (i % 2 == 0 ? "done" : "failed"));
  }
  CHECK(cell(2, "error").find('\n') != std::string::npos);
}

TEST_CASE("sweep: a case that fails is written down, and the others run on") {
  const TemporaryFolder folder;
  write_file(folder / "w.yaml", plain_vit);
  test::run(folder, {"train", "-c", "w.yaml", "output.dir=w", "train.steps=1"});
  fs::create_directories(folder / "<b>&<");
  fs::copy(folder / "w/checkpoints/step-00000001", folder / "<b>&</script>");
  fs::remove(folder / "<b>&</script>/config.json");  // it fixes num_heads
  write_inputs(folder,
               "command: train\n"
               "config: c.yaml\n"
               "grid: {model.num_heads: [2, 3, 4]}\n"
               "cases:\n  - {optimizer.lr: 1e-3}\n  - {model.from: \"<b>&</script>\", optimizer.lr: 2e-3}\n"
               "output: {dir: out}\n");
  const CommandResult result = sweep(folder, {"--jobs", "2", "--json", "all.json"});
  CHECK(result.code == 1);
  const nlohmann::json all = read_json(folder / "all.json");
  REQUIRE(all.at("cases").size() == 6);
  for (const nlohmann::json& one : all.at("cases")) {
    const bool wrong = one.at("overrides").at("model.num_heads") == 3;
    CHECK(one.at("status") == (wrong ? "failed" : "done"));
    CHECK(one.at("exit_code") == (wrong ? 2 : 0));
    if (wrong)
      check_says(one.at("error").get<std::string>(), "`num_heads` 3 does not divide");
    else
      CHECK(fs::exists(fs::path(folder.path()) / one.at("run").get<std::string>() / "summary.json"));
  }
  CHECK(result.out.find("warning") == std::string::npos);
  // Warnings about configurations appear before the first case runs.
  for (const char* const number : {"[3/6]", "[4/6]"})
    check_says(result.error, fmt::format("lacuna: warning: {} num heads 3 · ", number));
  check_says(result.error, "`num_heads` 3 does not divide");
  CHECK(result.error.find("[1/6]") == std::string::npos);
  check_says(result.out, "\n2 of 6 cases failed; the page and sweep.csv say why\n");
  // A case keeps its number and its name.
  check_says(result.out, "[1/6] num heads 2 · lr 0.001 started\n");
  check_says(result.out, "[1/6] num heads 2 · lr 0.001 done in ");
  check_says(result.out, "[3/6] num heads 3 · lr 0.001 started\n");
  check_says(result.out, "[3/6] num heads 3 · lr 0.001 FAILED after ");
  // A failure is tried again, since its cause may be gone; nothing else is. Where the sweep was moved, its runs are
  // found.
  fs::rename(folder / "out", folder / "moved");
  const CommandResult again = sweep(folder, {"output.dir=moved"});
  check_says(again.out, "4 of them finished already");
  CHECK(again.error.find("metrics.jsonl") == std::string::npos);
  const nlohmann::json moved = read_json(folder / "moved/sweep.json");
  for (const nlohmann::json& one : moved.at("cases"))
    if (one.at("status") == "done") CHECK(one.at("run").get<std::string>().starts_with("moved/runs/"));
  fs::rename(folder / "moved", folder / "out");
  const auto without_metrics = folder / all.at("cases").at(0).at("run").get<std::string>() / "metrics.jsonl";
  const std::string metrics = read_file(without_metrics);
  fs::remove(without_metrics);
  check_says(sweep(folder).error, "holds no metrics.jsonl: the page has no curves of ");
  write_file(without_metrics, metrics);
  CHECK(sweep(folder).error.find("metrics.jsonl") == std::string::npos);

  const std::string page = read_file(folder / "out/sweep.html");
  CHECK(page.find("<b>&") == std::string::npos);
  const std::string dom = browse(folder, "out/sweep.html");
  if (dom.empty()) return;
  check_says(dom, "2 cases failed");
  check_says(dom, "<td class=\"text\">&lt;b&gt;&amp;&lt;/script&gt;</td>");
}

TEST_CASE("sweep: what a case warns of is said, and written down") {
  const TemporaryFolder folder;
  const int many = processors() + 1;
  write_inputs(folder, fmt::format("command: bench\nconfig: c.yaml\narguments: [--steps, 1]\n"
                                   "grid: {{train.threads: [1, {}]}}\noutput: {{dir: out}}\n",
                                   many));
  const CommandResult result = sweep(folder, {"--json", "all.json", "train.batch_size=4", "output.dir=there"});
  CHECK(result.code == 0);
  const nlohmann::json cases = read_json(folder / "all.json").at("cases");
  REQUIRE(cases.size() == 2);
  CHECK(cases[0].at("result").at("batch_size") == 4);
  CHECK(!cases[0].contains("warnings"));
  const std::string warning = cases[1].at("warnings");
  CHECK(warning.starts_with(fmt::format("lacuna: warning: {} threads", many)));
  CHECK(result.out.find(" s\n" + warning + "\n") > result.out.find("[2/2] threads"));
  check_says(result.out, warning);
  check_says(read_file(folder / "there/sweep.csv"), warning.substr(0, warning.find(',')));
  const std::string refused = sweep(folder, {"train.threads=2", "data.nowhere=3"}).error;
  for (const char* const named : {"command line: train.threads", "command line: unknown key", "\"nowhere\""})
    check_says(refused, named);
  CHECK(sweep(folder, {"train={threads: 2}"}).error ==
        "lacuna: command line: train cannot be set: cases of the sweep set it themselves\n");
  const std::string dom = browse(folder, "there/sweep.html");
  if (!dom.empty()) check_says(dom, "One case gave a warning");
}

TEST_CASE("sweep: an interrupted one goes on where it stopped") {
  const TemporaryFolder folder;
  write_inputs(folder, "command: train\nconfig: c.yaml\ngrid: {train.epochs: [1, 100000]}\noutput: {dir: out}\n");
  // The folder of the long case, once it has a checkpoint.
  const auto long_case = [&]() -> fs::path {
    if (!fs::exists(folder / "out/runs")) return {};
    for (const fs::directory_entry& entry : fs::directory_iterator(folder / "out/runs"))
      if (fs::is_symlink(entry.path() / "last") &&
          read_file(entry.path() / "config.yaml").find("epochs: 100000") != std::string::npos)
        return entry.path();
    return {};
  };
  // The lines that the case has written so far. Each contains its step's time, so no two are equal.
  const auto written = [&]() -> std::vector<std::string> {
    const fs::path run = long_case();
    if (run.empty() || !fs::exists(run / "metrics.jsonl")) return {};
    return lines_of(read_file(run / "metrics.jsonl"));
  };
  std::vector<std::string> before;
  for (int call = 0; call < 2; ++call) {
    // A group of its own, to all of which the signal goes in the second call, as a terminal sends it.
    CommandRun run(folder, {LACUNA_BINARY_DIR "/bin/lacuna", "sweep", "-c", "s.yaml"}, {}, "/usr/bin/setsid");
    while (run.running() &&
           !(lines_of(read_file(folder / "stdout")).size() >= (call == 0 ? 2 : 1) && written().size() > before.size()))
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ::kill(call == 0 ? run.process() : -run.process(), SIGINT);
    const CommandResult result = run.wait();
    INFO(result.out, result.error);
    CHECK(result.code == 130);
    check_says(result.error, "1 of 2 cases finished");
    CHECK(read_json(folder / "out/sweep.json").at("cases").size() == 1);
    const std::string page = read_file(folder / "out/sweep.html");
    check_says(page, "stopped with 1 of 2 cases finished");
    for (const char* const label : {"\"label\":\"epochs 1\"", "\"label\":\"epochs 100000\""}) check_says(page, label);
    check_says(page, "\"status\":\"unfinished\"");
    const auto left = std::distance(fs::directory_iterator(folder / "out/cases"), {});
    CHECK(left == 1);
    const std::vector<std::string> all = written();
    REQUIRE(all.size() > before.size());
    CHECK(std::equal(before.begin(), before.end(), all.begin()));
    before = all;
    // The case has saved where it was stopped.
    const nlohmann::json last = nlohmann::json::parse(all.back());
    CHECK(read_json(long_case() / "last/checkpoint.json").at("progress").at("step") == last.at("step"));
  }
}

TEST_CASE("sweep: configurations of one name in several folders are told from each other") {
  const TemporaryFolder folder;
  write_inputs(folder, "command: plan\ngrid: {config: [x/c.yaml, y/c.yaml]}\noutput: {dir: out}\n");
  for (const char* const name : {"x", "y"}) {
    fs::create_directory(folder / name);
    write_file(folder / name / "c.yaml", read_file(folder / "c.yaml") + "# of " + name + "\n");
  }
  const CommandResult result = sweep(folder);
  INFO(result.error);
  REQUIRE(result.code == 0);
  for (const char* const name : {"x/c", "y/c"}) {
    check_says(result.out, std::string("] ") + name + ".yaml started\n");
    check_says(result.out, std::string("\n") + name + ".yaml ");
    check_says(read_file(folder / "out/sweep.csv"), std::string(name) + ".yaml");
  }
}

TEST_CASE("sweep: what is no whole record of a case counts as not done") {
  const TemporaryFolder folder;
  write_inputs(folder, plans);
  REQUIRE(sweep(folder).code == 0);
  const nlohmann::json all = read_json(folder / "out/sweep.json");
  const nlohmann::json whole = all.at("cases").at(1);
  const fs::path file = folder / fmt::format("out/cases/{}.json", whole.at("id").get<std::string>());
  std::vector<nlohmann::json> damaged{nlohmann::json::array({whole}), 1, nullptr};
  for (const auto& [key, value] : std::vector<std::pair<const char*, nlohmann::json>>{{"id", 1},
                                                                                      {"id", "0"},
                                                                                      {"status", 1},
                                                                                      {"status", "DONE"},
                                                                                      {"seconds", "x"},
                                                                                      {"exit_code", "0"},
                                                                                      {"exit_code", 1e300},
                                                                                      {"exit_code", -1},
                                                                                      {"result", {1}},
                                                                                      {"result", "x"},
                                                                                      {"warnings", 1},
                                                                                      {"run", {"r"}}}) {
    damaged.push_back(whole);
    damaged.back()[key] = value;
  }
  for (const nlohmann::json& one : damaged) {
    write_file(file, one.dump());
    const CommandResult result = sweep(folder);
    INFO(one.dump(), result.out, result.error);
    CHECK(result.code == 0);
    check_says(result.out, "3 of them finished already");
    CHECK(read_json(file).at("result") == whole.at("result"));
  }
  nlohmann::json again = read_json(folder / "out/sweep.json"), before = all;
  for (nlohmann::json* const json : {&again, &before}) json->at("cases").at(1).erase("seconds");
  CHECK(again == before);
}

TEST_CASE("sweep: two processes do not sweep into one folder") {
  const TemporaryFolder folder;
  write_inputs(folder, "command: train\nconfig: c.yaml\ngrid: {train.epochs: [1, 100000]}\noutput: {dir: out}\n");
  CommandRun first(folder, {"sweep", "-c", "s.yaml"});
  const auto finished = [&] {
    return fs::exists(folder / "out/cases") &&
           std::ranges::any_of(fs::directory_iterator(folder / "out/cases"),
                               [](const auto& e) { return e.path().extension() == ".json"; });
  };
  while (first.running() && !finished()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  // A folder of its own for what the second one prints.
  const TemporaryFolder elsewhere;
  for (const char* const name : {"c.yaml", "s.yaml"}) fs::copy(folder / name, elsewhere / name);
  const std::string place = "output.dir=" + (folder / "out").string();
  const CommandResult second = sweep(elsewhere, {place});
  INFO(second.out, second.error);
  CHECK(second.code == 2);
  CHECK(second.error == fmt::format("lacuna: {} cannot be written to: process {} sweeps into it\n",
                                    (folder / "out").string(), first.process()));
  CHECK(second.out.empty());
  CHECK(first.running());
  CHECK(!fs::exists(folder / "out/sweep.json"));
  first.signal(SIGINT);
  const CommandResult stopped = first.wait();
  CHECK(stopped.code == 130);
  CHECK(stopped.out.find("FAILED") == std::string::npos);
  // The folder is free once the process that held it has ended.
  write_file(elsewhere / "s.yaml", "command: train\nconfig: c.yaml\ngrid: {train.epochs: [1]}\n");
  check_says(sweep(elsewhere, {place}).out, "1 cases of `lacuna train`, 1 of them finished already");
}

}  // namespace lacuna::test
