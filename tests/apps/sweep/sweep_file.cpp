// Sweep files: how cases are written, drawn and checked.
#include "apps/sweep/sweep_file.h"
#include "apps/config/experiment.h"
#include "tests/apps/sweep/sweep_run.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace lacuna::test {
namespace {

namespace fs = std::filesystem;

}  // namespace

TEST_CASE("sweep: a case may set a whole section at once") {
  const TemporaryFolder folder;
  write_inputs(folder,
               "command: plan\nconfig: c.yaml\noutput: {dir: out}\n"
               "cases: [{memory: {policy: fixed, bits: 4}}, {memory.policy: fixed, memory.bits: 4}]\n");
  REQUIRE(sweep(folder).code == 0);
  const auto cases = read_json(folder / "out/sweep.json").at("cases");
  REQUIRE(cases.size() == 2);
  CHECK(cases[0].at("result").at("memory").at("saved") == cases[1].at("result").at("memory").at("saved"));
  const nlohmann::json listed = {{"memory.policy", "fixed"}, {"memory.bits", 4}};  // key by key, however it was given
  for (const nlohmann::json& one : cases) CHECK(one.at("overrides") == listed);
  check_refused_sweeps(folder, "command: plan\nconfig: c.yaml\n",
                       {{"grid: {memory: [{policy: keep}, {bitts: 4}]}", "\"bitts\"", "section memory|\"bits\""}});
}

TEST_CASE("sweep: a case may have several configurations, of which each is laid over those before") {
  const TemporaryFolder folder;
  write_inputs(folder,
               "command: plan\n"
               "grid: {config: [c.yaml, [c.yaml, codes.yaml], [c.yaml, codes.yaml, few.yaml]]}\n"
               "output: {dir: out}\n");
  write_file(folder / "codes.yaml", "memory: {policy: fixed, bits: 4}\n");
  write_file(folder / "few.yaml", "train: {batch_size: 2}\n");
  CommandResult result = sweep(folder);
  INFO(result.error);
  REQUIRE(result.code == 0);
  const auto written = read_json(folder / "out/sweep.json");
  const nlohmann::json& cases = written.at("cases");
  REQUIRE(cases.size() == 3);
  CHECK(cases[0].at("config") == "c.yaml");
  CHECK(cases[2].at("config") == nlohmann::json{"c.yaml", "codes.yaml", "few.yaml"});
  const auto saved = [&](std::size_t i) { return cases[i].at("result").at("memory").at("saved").get<std::int64_t>(); };
  CHECK(saved(1) < saved(0));
  CHECK(saved(2) < saved(1));
  check_says(result.out, "c.yaml + codes.yaml + few.yaml");
  result = sweep(folder);  // nothing is left to do
  check_says(result.out, "3 of them finished already");
  write_file(folder / "few.yaml", "train: {batch_size: 1}\n");
  result = sweep(folder);
  check_says(result.out, "2 of them finished already");

  const auto plan = run_command(folder, {"plan", "-c", "c.yaml", "-c", "codes.yaml", "--json", "-"}).json();
  CHECK(cases[1].at("result") == plan);

  const std::string wrong = "config: []\ncases:\n  - {config: [c.yaml, [codes.yaml]]}\n  - {config: [c.yaml, no.yaml]}";
  check_refused_sweeps(folder, "command: plan\n",
                       {{wrong, "s.yaml:2", "config|list of files"},
                        {wrong, "s.yaml:4", "config|list of files"},
                        {wrong, "config", "no.yaml"},
                        // One file in a list is that file.
                        {"grid: {config: [c.yaml, [c.yaml]]}", "c.yaml", "twice"}});

  write_file(folder / "codes.yaml", "memory: {policy: [\n");
  write_file(folder / "s.yaml",
             "command: plan\n"
             "grid: {config: [c.yaml, [c.yaml, codes.yaml], [codes.yaml, c.yaml]]}\n"
             "output: {dir: damaged}\n");
  CHECK(sweep(folder).code == 1);
  const nlohmann::json after = read_json(folder / "damaged/sweep.json").at("cases");
  CHECK(after.at(0).at("status") == "done");
  CHECK(after.at(1).at("status") == "failed");
  CHECK(after.at(2).at("status") == "failed");
  CHECK(after.at(1).at("id") != after.at(2).at("id"));
}

TEST_CASE("sweep: a section given whole after a key of it is refused, not run without the key") {
  const TemporaryFolder folder;
  const auto error_of = [&](const std::string& text, std::vector<std::string> rest = {}) {
    write_inputs(folder, "command: plan\nconfig: c.yaml\noutput: {dir: out}\n" + text);
    const CommandResult result = sweep(folder, std::move(rest));
    CHECK(result.code == (result.error.empty() ? 0 : 2));
    return result.error;
  };
  const auto drops = [](int line) {
    return fmt::format(
        "memory: given whole, the section replaces all that is set of it, and memory.bits of {} is "
        "dropped",
        line == 0 ? "the command line" : fmt::format("line {}", line));
  };
  const auto said = [](const std::string& error, const std::string& text) {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = error.find(text, at)) != std::string::npos; ++at) ++count;
    return count;
  };
  // Said once, however many cases it makes.
  const std::string many = error_of(
      "grid: {memory.bits: [2, 4], train.seed: [1, 2]}\n"
      "cases: [{memory: {policy: fixed, recompute: [\"blocks.*\"]}}]\n");
  CHECK(many.starts_with("lacuna: s.yaml:5:18: "));
  CHECK(said(many, drops(4)) == 1);
  CHECK(!fs::exists(folder / "out"));
  const std::string bits = "overrides: {memory.bits: 4}\n";
  CHECK(said(error_of(bits + "cases: [{memory: {policy: fixed, bits: 4}}]\n"), drops(4)) == 1);
  CHECK(said(error_of(bits + "grid: {memory: [{policy: fixed}, {policy: adaptive}]}\n"), drops(4)) == 2);
  CHECK(said(error_of(bits, {"memory={policy: fixed}"}), drops(4)) == 1);
  CHECK(said(error_of("", {"memory.bits=4", "memory={policy: fixed}"}), drops(0)) == 1);
  // A key after a section that came whole is a key of it.
  const std::string fixed = "overrides: {memory: {policy: fixed}}\n";
  CHECK(error_of(fixed + "grid: {memory.bits: [2, 4]}\n").empty());
  const auto cases = read_json(folder / "out/sweep.json").at("cases");
  REQUIRE(cases.size() == 2);
  const auto saved = [](const nlohmann::json& one) { return one.at("result").at("memory").at("saved").get<int>(); };
  CHECK(saved(cases[0]) < saved(cases[1]));
  CHECK(error_of(fixed, {"memory.bits=4"}).empty());
  CHECK(error_of("grid: {memory: [{policy: fixed}]}\ncases: [{memory.bits: 2}]\n").empty());
  // A section given whole again stands where it stood first.
  CHECK(error_of(fixed + "grid: {memory.bits: [2, 4]}\ncases: [{memory: {policy: adaptive}}]\n").empty());
  const auto again = read_json(folder / "out/sweep.json").at("cases");
  REQUIRE(again.size() == 2);
  CHECK(saved(again[0]) < saved(again[1]));
  for (const char* const argument : {"-c", "-cother.yaml", "-c=other.yaml", "--config=other.yaml"})
    check_refused_sweeps(folder, "command: plan\nconfig: c.yaml\n",
                         {{fmt::format("arguments: [{}]", argument), "arguments", "configurations"}});
}

TEST_CASE("sweep: the sweeps that come with the program are read") {
  for (const fs::directory_entry& entry : fs::directory_iterator(LACUNA_SOURCE_DIR "/configs/sweeps")) {
    INFO(entry.path().string());
    const apps::Sweep sweep = apps::read_sweep(entry.path());
    CHECK(!sweep.cases.empty());
    for (const apps::SweepCase& one : sweep.cases) {
      std::vector<std::string> overrides;
      for (const apps::SweepOverride& override : one.overrides)
        overrides.push_back(override.key + "=" + override.value);
      INFO(fmt::format("{}", fmt::join(overrides, " ")));
      CHECK_NOTHROW(apps::read_configuration(one.configurations, overrides));
    }
  }
}

TEST_CASE("sweep: the id of a case has each argument by itself") {
  const TemporaryFolder folder;
  write_inputs(folder, plans);
  const apps::SweepCase one{
      .configurations = {(folder / "c.yaml").string()}, .overrides = {}, .settings = {}, .id = {}};
  apps::SweepCase other = one;
  other.overrides.push_back({.key = "a", .value = "1", .text = "1", .number = 1});
  std::set<std::string> ids{id_of({.command = "plan", .arguments = {}, .folder = {}, .cases = {}}, other)};
  const std::vector<std::string> lists[] = {{"a", "b"}, {"a\nb"}, {"b", "a"}, {"ab"}, {"a", "", "b"}, {"a=1"}};
  for (const std::vector<std::string>& arguments : lists)
    ids.insert(id_of({.command = "plan", .arguments = arguments, .folder = {}, .cases = {}}, one));
  CHECK(ids.size() == 1 + std::size(lists));
}

TEST_CASE("sweep: values drawn at random follow their distributions, and more trials keep those before") {
  const TemporaryFolder folder;
  const auto drawn = [&](int trials, int seed) {
    write_inputs(folder, fmt::format("command: plan\nconfig: c.yaml\nrandom:\n  trials: {}\n  seed: {}\n  values:\n"
                                     "    optimizer.lr: {{log_uniform: [1e-5, 1e-1]}}\n"
                                     "    optimizer.weight_decay: {{uniform: [0.1, 0.2]}}\n"
                                     "    model.depth: {{integer: [2, 4]}}\n"
                                     "    memory.policy: {{choice: [keep, exact]}}\n",
                                     trials, seed));
    return apps::read_sweep(folder / "s.yaml").cases;
  };
  constexpr int many = 400;
  const std::vector<apps::SweepCase> cases = drawn(many, 0);
  REQUIRE(cases.size() == many);
  int small_rates = 0, keeps = 0;
  std::map<double, int> depths;
  for (const apps::SweepCase& one : cases) {
    const double rate = *one.overrides.at(0).number, decay = *one.overrides.at(1).number;
    CHECK((rate >= 1e-5 && rate <= 1e-1));
    CHECK((decay >= 0.1 && decay <= 0.2));
    small_rates += rate < 1e-3;  // half of the range by its logarithm
    ++depths[*one.overrides.at(2).number];
    keeps += one.overrides.at(3).text == "keep";
  }
  // Six standard deviations of a fair coin's 400 throws are 60.
  CHECK(std::abs(small_rates - many / 2) < 60);
  CHECK(std::abs(keeps - many / 2) < 60);
  CHECK(depths.size() == 3);
  CHECK((depths[2] > many / 5 && depths[3] > many / 5 && depths[4] > many / 5));
  const std::vector<apps::SweepCase> fewer = drawn(3, 0), others = drawn(3, 1);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(fewer.at(i).id == cases.at(i).id);
    CHECK(others.at(i).id != cases.at(i).id);
  }
  CHECK_NOTHROW(apps::read_configuration(cases.at(0).configurations, {}));

  const std::string lr = "random: {trials: 2, values: {optimizer.lr: ";
  check_refused_sweeps(folder, "command: plan\nconfig: c.yaml\n",
                       {{lr + "{uniform: [1, 0]}}}", "random.values.optimizer.lr", "two numbers"},
                        {lr + "{log_uniform: [0, 1]}}}", "log_uniform", "positive"},
                        {lr + "{integer: [0.5, 1]}}}", "optimizer.lr", "whole numbers"},
                        {lr + "{lognormal: [0, 1]}}}", "\"lognormal\"", "distribution"},
                        {lr + "[1, 2]}}", "optimizer.lr", "a distribution"},
                        {"random: {trials: 2, values: {optimizer.lrr: {uniform: [0, 1]}}}", "\"lr\""},
                        {"random: {trials: 0, values: {optimizer.lr: {uniform: [0, 1]}}}", "trials", "whole number"},
                        {"random: {trials: 2}", "random", "`values`"},
                        {lr + "{uniform: [0, 1]}}}\ngrid: {optimizer.lr: [1]}", "optimizer.lr", "`random`"},
                        {"seeds: [1]", "seeds", "plan"}});
}

TEST_CASE("sweep: random values stay within narrow and tiny ranges, and differ there") {
  const TemporaryFolder folder;
  for (const auto& [distribution, min, max] :
       {std::tuple{"uniform", 0.123456, 0.123457}, std::tuple{"uniform", 0.33333, 0.66666},
        std::tuple{"log_uniform", 1.00001, 1.00002}, std::tuple{"log_uniform", 1e-310, 1e-309}}) {
    write_inputs(folder, fmt::format("command: plan\nconfig: c.yaml\nrandom:\n  trials: 200\n  values:\n"
                                     "    optimizer.lr: {{{}: [{}, {}]}}\n",
                                     distribution, min, max));
    const apps::Sweep sweep = apps::read_sweep(folder / "s.yaml");
    CAPTURE(distribution);
    CAPTURE(min);
    CHECK(sweep.cases.size() > 100);
    for (const apps::SweepCase& one : sweep.cases) {
      const double value = *one.overrides.at(0).number;
      CHECK(value >= min);
      CHECK(value <= max);
    }
  }
}

TEST_CASE("sweep: trials that repeat earlier draws are left out and counted; a case that is there twice is refused") {
  const TemporaryFolder folder;
  const std::string random =
      "command: plan\nconfig: c.yaml\nrandom: {trials: 30, values: {memory.policy: {choice: [keep, exact]}}}\n";
  write_inputs(folder, random + "grid: {train.batch_size: [1, 2]}\n");
  const apps::Sweep once = apps::read_sweep(folder / "s.yaml");
  CHECK(once.cases.size() == 4);
  CHECK(once.repeated_trials == 28);
  check_says(sweep(folder).error, "28 trials");
  write_inputs(folder, random + "grid: {train.batch_size: [1, 1]}\n");
  check_refused(folder, {"sweep", "-c", "s.yaml"}, {"train.batch_size", "twice"});
}

TEST_CASE("sweep: the file may be given without -c") {
  const TemporaryFolder folder;
  write_inputs(folder, plans);
  CHECK(run_command(folder, {"sweep", "s.yaml", "output.dir=there"}).code == 0);
  CHECK(read_json(folder / "there/sweep.json").at("cases").size() == 4);
  check_refusals(folder, {}, {{"sweep", "sweep file"}, {"sweep\ns.yaml\nother.yaml", "s.yaml", "the sweep file"}});
}

TEST_CASE("sweep: a wrong file is refused with all that is wrong in it") {
  const TemporaryFolder folder;
  const std::string plan = "command: plan\nconfig: c.yaml\n", bench = "command: bench\nconfig: c.yaml\n",
                    all =
                        "comand: plan\n"
                        "command: plans\n"
                        "config: nowhere.yaml\n"
                        "arguments: [--json]\n"
                        "overrides: {trian.batch_size: 4, train.batchsize: 4, train: 3}\n"
                        "grid: {memory.policy: keep, optimizer.momentun: [0.9]}\n"
                        "cases: [{memory.policy: exact}]\n"
                        "output: {dri: x}";
  check_refused_sweeps(folder, "",
                       {{all, "s.yaml:1:1", "\"comand\"|\"command\""},
                        {all, "s.yaml:2:10", "command|plan, bench, train|\"plan\""},
                        {all, "s.yaml:3:9", "config|nowhere.yaml"},
                        {all, "arguments", "--json"},
                        {all, "\"trian\"", "section|\"train\""},
                        {all, "\"batchsize\"", "section train|\"batch_size\""},
                        {all, "section train", "train.NAME|`3`"},
                        {all, "grid.memory.policy", "list|`keep`"},
                        {all, "\"momentun\"", "section optimizer|\"momentum\""},
                        {all, "\"memory.policy\"", "`grid` already|line 6"},
                        {all, "output", "\"dri\"|\"dir\""},
                        {"command: plan", "\"config\""},
                        {"command: plan\nconfig: " + std::string(300, 'c'), "s.yaml:2:9", "config|ccc"},
                        {"command: train\nconfig: c.yaml\noverrides: {output.dir: x}", "output.dir", "run folder"},
                        {plan + "overrides: {output: {dir: x}}", "output.dir", "run folder"},
                        {plan + "grid: {train.batch_size: [4, 4]}", "train.batch_size", "twice"},
                        {plan + "cases: []", "cases", "empty"},
                        {plan + "arguments: [--help]", "arguments", "prints"},
                        {bench + "arguments: [--step, 2]", "s.yaml:3:12", "arguments|bench|--step|--steps"},
                        {bench + "arguments: [--steps, x]", "arguments", "bench|--steps"},
                        {bench + "arguments: [--steps, 3, train.batch_size=5]", "s.yaml:3:25", "train.batch_size=5"},
                        {"[1]", "a sweep", "keys|a list"}});
  CHECK(!fs::exists(folder / "out"));
}

}  // namespace lacuna::test
