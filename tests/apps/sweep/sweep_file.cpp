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
  write_file(folder / "s.yaml", "command: plan\nconfig: c.yaml\ngrid: {memory: [{policy: keep}, {bitts: 4}]}\n");
  const CommandResult wrong = sweep(folder);
  CHECK(wrong.code == 2);
  check_says(wrong.error, "unknown key in section memory: \"bitts\", did you mean \"bits\"?");
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

  write_file(folder / "s.yaml",
             "command: plan\n"
             "config: []\n"
             "cases:\n"
             "  - {config: [c.yaml, [codes.yaml]]}\n"
             "  - {config: [c.yaml, no.yaml]}\n");
  result = sweep(folder);
  CHECK(result.code == 2);
  const std::string expected = "config: expected a file, or a list of files of which each is laid over those before it";
  const std::size_t first = result.error.find(expected);
  REQUIRE(first != std::string::npos);
  CHECK(result.error.find(expected, first + 1) != std::string::npos);
  check_says(result.error, "s.yaml:2");
  check_says(result.error, "s.yaml:4");
  check_says(result.error, "config: there is no file no.yaml");

  write_file(folder / "s.yaml", "command: plan\ngrid: {config: [c.yaml, [c.yaml]]}\n");
  check_says(sweep(folder).error, "is there twice");  // one file in a list is that file

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
    check_says(error_of(fmt::format("arguments: [{}]\n", argument)), " cannot be given here; configurations belong");
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

  const auto refused = [&](const std::string& text, const char* reason) {
    write_inputs(folder, "command: plan\nconfig: c.yaml\n" + text);
    const CommandResult wrong = sweep(folder);
    INFO(wrong.error);
    CHECK(wrong.code == 2);
    check_says(wrong.error, reason);
  };
  const std::string lr = "random: {trials: 2, values: {optimizer.lr: ";
  refused(lr + "{uniform: [1, 0]}}}\n", "random.values.optimizer.lr: expected two numbers");
  refused(lr + "{log_uniform: [0, 1]}}}\n", "log_uniform is of positive numbers");
  refused(lr + "{integer: [0.5, 1]}}}\n", "expected whole numbers");
  refused(lr + "{lognormal: [0, 1]}}}\n", "unknown distribution \"lognormal\"");
  refused(lr + "[1, 2]}}\n", "expected a distribution");
  refused("random: {trials: 2, values: {optimizer.lrr: {uniform: [0, 1]}}}\n", "did you mean \"lr\"?");
  refused("random: {trials: 0, values: {optimizer.lr: {uniform: [0, 1]}}}\n",
          "random: trials: expected a whole number");
  refused("random: {trials: 2}\n", "random: expected `values`");
  refused(lr + "{uniform: [0, 1]}}}\ngrid: {optimizer.lr: [1]}\n", "stands under `random` already");
  refused("seeds: [1]\n", "a plan does not depend on the seed");
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
  CHECK(sweep(folder).code == 2);
}

TEST_CASE("sweep: the file may be given without -c") {
  const TemporaryFolder folder;
  write_inputs(folder, plans);
  CHECK(run_command(folder, {"sweep", "s.yaml", "output.dir=there"}).code == 0);
  CHECK(read_json(folder / "there/sweep.json").at("cases").size() == 4);
  CHECK(run_command(folder, {"sweep"}).code == 2);
  check_says(run_command(folder, {"sweep", "s.yaml", "other.yaml"}).error, "the sweep file is s.yaml");
}

TEST_CASE("sweep: a wrong file is refused with all that is wrong in it") {
  const TemporaryFolder folder;
  write_inputs(folder,
               "comand: plan\n"
               "command: plans\n"
               "config: nowhere.yaml\n"
               "arguments: [--json]\n"
               "overrides: {trian.batch_size: 4, train.batchsize: 4, train: 3}\n"
               "grid: {memory.policy: keep, optimizer.momentun: [0.9]}\n"
               "cases: [{memory.policy: exact}]\n"
               "output: {dri: x}\n");
  const CommandResult result = sweep(folder);
  CHECK(result.code == 2);
  for (const std::string_view expected :
       {"s.yaml:1:1: unknown key of a sweep: \"comand\", did you mean \"command\"?",
        "s.yaml:2:10: a sweep: command: expected one of plan, bench, train (did you mean \"plan\"?)",
        "s.yaml:3:9: config: there is no file nowhere.yaml", "arguments: --json cannot be given here",
        "unknown section \"trian\", did you mean \"train\"?",
        "unknown key in section train: \"batchsize\", did you mean \"batch_size\"?",
        "expected keys and values of the section train, as {NAME: ...}, or one key as train.NAME, got `3`",
        "grid.memory.policy: expected a list of values, got `keep`",
        "unknown key in section optimizer: \"momentun\", did you mean \"momentum\"?",
        "the key \"memory.policy\" stands under `grid` already, in line 6",
        "unknown key of output: \"dri\", did you mean \"dir\"?"}) {
    INFO(result.error);
    CHECK_MESSAGE(result.error.find(expected) != std::string::npos, expected);
  }
  CHECK(!fs::exists(folder / "out"));
  const auto refused = [&](std::string_view text, std::string_view reason) {
    write_file(folder / "s.yaml", text);
    const CommandResult wrong = sweep(folder);
    INFO(wrong.error);
    CHECK(wrong.code == 2);
    check_says(wrong.error, reason);
  };
  refused("command: plan\n", "expected the key \"config\"");
  refused("command: train\nconfig: c.yaml\noverrides: {output.dir: x}\n", "a run folder of its own");
  refused("command: plan\nconfig: c.yaml\ngrid: {train.batch_size: [4, 4]}\n", "is there twice");
  refused("command: bench\nconfig: c.yaml\narguments: [--step, 2]\n",
          "s.yaml:3:12: arguments: bench: --step is not "
          "expected, did you mean --steps?");
  refused("command: bench\nconfig: c.yaml\narguments: [--steps, x]\n", "arguments: bench: --steps: ");
  refused("command: plan\nconfig: c.yaml\ncases: []\n",
          "cases: expected a list of cases, each with keys and values, got an empty one");
  refused("command: plan\nconfig: c.yaml\noverrides: {output: {dir: x}}\n", "a run folder of its own");
  refused("command: bench\nconfig: c.yaml\narguments: [--steps, 3, train.batch_size=5]\n",
          "s.yaml:3:25: arguments: train.batch_size=5 is a value of the configuration");
  refused("command: plan\nconfig: c.yaml\narguments: [--help]\n", "arguments: expected no option that prints");
  refused("[1]\n", "a sweep: expected keys with values, got a list");
}

}  // namespace lacuna::test
