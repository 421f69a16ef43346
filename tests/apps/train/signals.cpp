// SIGINT and SIGTERM at any moment of a run.
#include "tests/apps/train/train_run.h"

namespace lacuna::test {
namespace {

/// Whether `process` is the command by now, and takes note of `signal`.
bool notes(pid_t process, int signal) {
  return read_file("/proc/" + std::to_string(process) + "/comm") == "lacuna\n" && has(process, "SigBlk:", signal);
}

}  // namespace

TEST_CASE("signals: at any moment of a matrix product, and again and again") {
  // oneDNN's kernels use the stack pointer as a register: a handler on their thread would overwrite what it points to.
  const TemporaryFolder folder(
      "model: {name: vit, image_size: 32, patch_size: 8, embed_dim: 96, depth: 3, num_heads: 3}\n"
      "data: {name: shapes, train_size: 320, val_size: 10}\n"
      "train: {epochs: 1000, batch_size: 32, threads: 1}\n");
  for (int i = 0; i < 6; ++i) {
    std::string run = "r";
    run += std::to_string(i);
    CommandRun training(folder, train({"output.dir=" + run}));
    while (training.running() && lines_in(folder / run / "metrics.jsonl") < 3)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::this_thread::sleep_for(std::chrono::milliseconds(1 + 3 * i));
    training.signal(i % 2 == 0 ? SIGTERM : SIGINT);
    const CommandResult result = training.wait();
    INFO(result.error);
    CHECK(result.code == 128 + (i % 2 == 0 ? SIGTERM : SIGINT));
    CHECK(fs::exists(folder / run / "last/model.safetensors"));
  }
}

TEST_CASE("train: a signal ends the step, saves, and is told by the exit code") {
  const TemporaryFolder folder(vit);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU}) {
    const CommandResult result = stop_after(folder, 3, signal);
    INFO(result.error);
    CHECK(result.code == 128 + signal);
    REQUIRE(fs::exists(folder / "r/last/checkpoint.json"));
    CHECK(run_command(folder, {"train", "--resume", "r", "train.steps=1"}).code == 0);
    fs::remove_all(folder / "r");
  }
}

TEST_CASE("train: a signal during an evaluation ends it too") {
  const TemporaryFolder folder(vit);
  CHECK(stop_in_evaluation(folder, 4, {}).code == 128 + SIGTERM);
  const nlohmann::json place = read_json(folder / "r/last/checkpoint.json").at("progress");
  CHECK(place.at("step") == 4);
  CHECK(place.at("epochs_evaluated") == 0);
  // The evaluation is made up for.
  CHECK(run_command(folder, {"train", "--resume", "r", "train.steps=4", "data.val_size=10"}).code == 0);
  CHECK(read_json(folder / "r/summary.json").at("epochs") == 1);
}

TEST_CASE("train: a signal during the last evaluation leaves the run to be gone on with") {
  const TemporaryFolder folder(vit);
  for (const auto& [steps, end] : {std::pair{4U, "train.epochs=1"}, std::pair{3U, "train.steps=3"}}) {
    CHECK(stop_in_evaluation(folder, steps, {end, "schedule.warmup_epochs=0"}).code == 128 + SIGTERM);
    CHECK(run_command(folder, {"train", "--resume", "r", "data.val_size=10"}).code == 0);
    CHECK(read_json(folder / "r/summary.json").at("val_accuracy").is_number());
    fs::remove_all(folder / "r");
  }
}

TEST_CASE("train: a signal before the first step is noted too") {
  const TemporaryFolder folder(vit);
  for (const int signal : {SIGINT, SIGTERM}) {
    CommandRun run(folder, train({"output.dir=r", "model.embed_dim=64", "model.depth=24"}));
    while (run.running() && !notes(run.process(), signal)) std::this_thread::yield();
    CHECK(!fs::exists(folder / "r/metrics.jsonl"));
    run.signal(signal);
    const CommandResult result = run.wait();
    INFO(result.error);
    CHECK(result.code == 128 + signal);
    check_says(result.out, "stopped after step 0");
    CHECK(read_json(folder / "r/last/checkpoint.json").at("progress").at("step") == 0);
    CHECK(run_command(folder, {"train", "--resume", "r", "train.steps=1"}).code == 0);
    fs::remove_all(folder / "r");
  }
}

TEST_CASE("train: the same SIGTERM or SIGHUP twice, as timeout sends it to a process and its group, is one") {
  const TemporaryFolder folder(vit);
  for (const int signal : {SIGTERM, SIGHUP}) {
    CommandRun run(folder, train({"output.dir=r", "model.image_size=64", "model.embed_dim=64", "data.train_size=2048",
                                  "train.batch_size=512", "train.accumulate=1"}));
    while (run.running() && lines_in(folder / "r/metrics.jsonl") < 1) std::this_thread::yield();
    run.signal(signal);
    wait_until_taken(run, signal);
    run.signal(signal);
    CHECK(run.wait().code == 128 + signal);
    CHECK(read_json(folder / "r/last/checkpoint.json").at("progress").at("step").get<int>() >= 1);
    fs::remove_all(folder / "r");
  }
}

TEST_CASE("train: a second signal ends at once") {
  const TemporaryFolder folder(vit);
  for (const auto& [first, second] : {std::pair{SIGTERM, SIGINT}, {SIGINT, SIGINT}}) {
    CommandRun run(folder, train({"output.dir=r", "model.image_size=64", "model.embed_dim=64", "data.train_size=2048",
                                  "train.batch_size=512", "train.accumulate=1"}));
    while (run.running() && lines_in(folder / "r/metrics.jsonl") < 1) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // into the second of an epoch's four steps
    run.signal(first);
    wait_until_taken(run, first);
    run.signal(second);
    CHECK(run.wait().code == 128 + second);
    CHECK(!fs::exists(folder / "r/last"));  // nor was the step finished
    fs::remove_all(folder / "r");
  }
}

TEST_CASE("train: notices of a batch system, again and again, are one request") {
  const TemporaryFolder folder(vit);
  CommandRun run(folder, train({"output.dir=r", "model.image_size=64", "model.embed_dim=64", "data.train_size=2048",
                                "train.batch_size=512", "train.accumulate=1"}));
  while (run.running() && lines_in(folder / "r/metrics.jsonl") < 1) std::this_thread::yield();
  for (const int signal : {SIGUSR1, SIGXCPU, SIGXCPU, SIGUSR2, SIGTERM}) {
    run.signal(signal);
    wait_until_taken(run, signal);
  }
  CHECK(run.wait().code == 128 + SIGUSR1);
  CHECK(fs::exists(folder / "r/last/checkpoint.json"));
}

TEST_CASE("train: a signal that was ignored at the start stays ignored") {
  const TemporaryFolder folder(vit);
  for (const int signal : {SIGINT, SIGTERM}) {
    ::signal(signal, SIG_IGN);
    CommandRun run(folder, train({"output.dir=r", "train.epochs=1000000", "--overwrite"}));
    ::signal(signal, SIG_DFL);
    while (run.running() && lines_in(folder / "r/metrics.jsonl") < 3) std::this_thread::yield();
    run.signal(signal);
    const std::size_t lines = lines_in(folder / "r/metrics.jsonl");
    while (run.running() && lines_in(folder / "r/metrics.jsonl") < lines + 10) std::this_thread::yield();
    CHECK(run.running());
    run.signal(signal == SIGINT ? SIGTERM : SIGINT);
    CHECK(run.wait().code == 128 + (signal == SIGINT ? SIGTERM : SIGINT));
  }
}

}  // namespace lacuna::test
