// Sweeps and their processes: several at a time, stopped ones, and what the system may do to them.
#include "apps/sweep/sweep_file.h"
#include "tests/apps/sweep/sweep_run.h"
#include "tests/apps/train/train_run.h"

#include <sys/stat.h>

#include <fstream>

namespace lacuna::test {
namespace {

/// Whether it comes true before a wait that no machine needs is over.
template <class Condition>
bool comes_true(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (!condition() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  return condition();
}

/// The ids of the cases of s.yaml, in its order.
std::vector<std::string> ids_in(const TemporaryFolder& folder) {
  std::vector<std::string> ids;
  for (const apps::SweepCase& one : apps::read_sweep(folder / "s.yaml").cases) ids.push_back(one.id);
  return ids;
}

std::size_t steps_in(const fs::path& run) {
  return fs::exists(run / "metrics.jsonl") ? lines_in(run / "metrics.jsonl") : 0;
}

/// Ends a training that would not end by itself.
void end_training(const fs::path& run) { ::kill(std::stoi(read_file(run / "lock")), SIGTERM); }

}  // namespace

TEST_CASE("sweep: cases run at the same time, and a signal stops all that run so that they can be gone on with") {
  const TemporaryFolder folder;
  write_inputs(folder,
               "command: train\nconfig: c.yaml\ngrid: {train.seed: [1, 2, 3]}\n"
               "overrides: {train.epochs: 100000, data.val_size: 10}\noutput: {dir: out}\n");
  const std::vector<std::string> ids = ids_in(folder);
  const fs::path runs = folder / "out/runs";
  CommandRun run(folder, {"sweep", "-c", "s.yaml", "--jobs", "2"});
  // Neither ends by itself: that both take steps after both have begun is that they run at once.
  std::vector<std::size_t> begun(2);
  const auto both_take_steps = [&] { return steps_in(runs / ids[0]) > begun[0] && steps_in(runs / ids[1]) > begun[1]; };
  CHECK(comes_true(both_take_steps));
  begun = {steps_in(runs / ids[0]), steps_in(runs / ids[1])};
  CHECK(comes_true(both_take_steps));
  CHECK(run.running());
  run.signal(SIGINT);
  const CommandResult result = run.wait();
  INFO(result.out, result.error);
  CHECK(result.code == 130);
  check_says(result.error, "0 of 3 cases finished");
  CHECK(!fs::exists(runs / ids[2]));
  CHECK(fs::is_empty(folder / "out/cases"));
  for (const char* const id : {ids[0].c_str(), ids[1].c_str()}) {
    CHECK(read_json(runs / id / "summary.json").at("stopped") == true);
    const int step = read_json(runs / id / "last/checkpoint.json").at("progress").at("step");
    CHECK(step > 0);
    const CommandResult resumed =
        run_command(folder, {"train", "--resume", (runs / id).string(), fmt::format("train.steps={}", step + 1)});
    INFO(resumed.error);
    CHECK(resumed.code == 0);
    CHECK(read_json(runs / id / "summary.json").at("steps") == step + 1);
  }
}

TEST_CASE("sweep: where a record cannot be written the other cases save what they have, and then the sweep ends") {
  const TemporaryFolder folder;
  // The first two do not end by themselves: the third begins when the test ends one of them, and the other takes steps.
  write_inputs(folder,
               "command: train\nconfig: c.yaml\ngrid: {train.epochs: [100000, 100001, 3]}\noutput: {dir: out}\n");
  const std::vector<std::string> ids = ids_in(folder);
  const fs::path runs = folder / "out/runs";
  CommandRun run(folder, {"sweep", "-c", "s.yaml", "--jobs", "2"});
  for (const std::string& id : {ids[0], ids[1]}) REQUIRE(comes_true([&] { return steps_in(runs / id) > 0; }));
  const std::string record = fmt::format("out/cases/{}.json", ids[2]);
  fs::create_directories(folder / record / "in the way");
  end_training(runs / ids[0]);
  REQUIRE(comes_true([&] { return !run.running(); }));
  const CommandResult result = run.wait();
  INFO(result.out, result.error);
  CHECK(result.code == 2);
  check_says(result.error, fmt::format("lacuna: cannot replace {}: ", record));
  CHECK(read_json(runs / ids[2] / "summary.json").at("epochs") == 3);
  CHECK(!read_json(runs / ids[2] / "summary.json").contains("stopped"));
  CHECK(read_json(runs / ids[1] / "summary.json").at("stopped") == true);
}

TEST_CASE("sweep: a case whose configuration has changed since the sweep began is not run") {
  const TemporaryFolder folder;
  write_inputs(folder, "command: train\nconfig: c.yaml\ngrid: {train.epochs: [1, 100000, 2]}\noutput: {dir: out}\n");
  const std::vector<std::string> ids = ids_in(folder);
  const std::string before = read_file(folder / "c.yaml");
  CommandRun run(folder, {"sweep", "-c", "s.yaml"});
  // The second does not end by itself.
  REQUIRE(comes_true([&] { return steps_in(folder / "out/runs" / ids[1]) > 0; }));
  write_file(folder / "c.yaml", before + "# another\n");
  end_training(folder / "out/runs" / ids[1]);
  const CommandResult result = run.wait();
  INFO(result.out, result.error);
  CHECK(result.code == 1);
  const nlohmann::json cases = read_json(folder / "out/sweep.json").at("cases");
  CHECK(cases.at(0).at("status") == "done");
  CHECK(cases.at(1).at("exit_code") == 128 + SIGTERM);
  CHECK(cases.at(2).at("status") == "failed");
  CHECK(cases.at(2).at("error") ==
        "lacuna: c.yaml changed after the sweep had begun; the same command runs the case as it is now");
  CHECK(!fs::exists(folder / "out/runs" / ids[2]));
  // The first is done, and the third as it was.
  write_inputs(folder, "command: train\nconfig: c.yaml\ngrid: {train.epochs: [1, 2]}\noutput: {dir: out}\n");
  const CommandResult again = sweep(folder);
  CHECK(again.code == 0);
  check_says(again.out, "2 cases of `lacuna train`, 1 of them finished already");
}

TEST_CASE("sweep: a signal after the last case has ended hides no failure") {
  const TemporaryFolder folder;
  write_inputs(folder, "command: train\nconfig: c.yaml\ngrid: {model.num_heads: [2, 3]}\noutput: {dir: out}\n");
  REQUIRE(sweep(folder).code == 1);
  const std::vector<std::string> ids = ids_in(folder);
  const fs::path failed = folder / "out/cases" / (ids[1] + ".json"),
                 curve = folder / "out/runs" / ids[0] / "metrics.jsonl";
  fs::remove(failed);
  fs::remove(curve);
  REQUIRE(::mkfifo(curve.c_str(), 0644) == 0);  // the page cannot be made until something is written to it
  CommandRun run(folder, {"sweep", "-c", "s.yaml"});
  REQUIRE(comes_true([&] { return fs::exists(failed); }));
  run.signal(SIGINT);
  wait_until_taken(run, SIGINT);
  std::ofstream writer(curve);
  fs::remove(curve);
  write_file(curve, "");  // for who opens it again
  writer.close();
  const CommandResult result = run.wait();
  INFO(result.out, result.error);
  CHECK(result.code == 1);
  CHECK(result.error.find("stopped by a signal") == std::string::npos);
  CHECK(read_json(folder / "out/sweep.json").at("cases").size() == 2);
}

TEST_CASE("sweep: the ends of cases are seen where SIGCHLD was ignored before") {
  const TemporaryFolder folder;
  write_inputs(folder, plans);
  CommandRun run(folder, {"--ignore-signal=CHLD", LACUNA_BINARY_DIR "/bin/lacuna", "sweep", "-c", "s.yaml"}, {},
                 "/usr/bin/env");
  const bool ended = comes_true([&] { return !run.running(); });
  if (!ended) run.signal(SIGKILL);
  const CommandResult result = run.wait();
  INFO(result.out, result.error);
  CHECK(ended);
  CHECK(result.code == 0);
  CHECK(read_json(folder / "out/sweep.json").at("cases").size() == 4);
}

}  // namespace lacuna::test
