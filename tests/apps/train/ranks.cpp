// Runs of several processes under mpirun, where there is one and the build has MPI.
#include "core/sanitizer.h"
#include "tests/apps/train/train_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

namespace lacuna::test {
namespace {

std::optional<std::string> mpirun() {
  if (!fs::exists(LACUNA_BINARY_DIR "/lib/liblacuna_mpi.so")) return {};
  std::istringstream folders(std::getenv("PATH") == nullptr ? "" : std::getenv("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');)
    if (const fs::path file = fs::path(folder) / "mpirun"; fs::exists(file)) return file.string();
  return {};
}

/// Started as root, with more ranks than cores, as in a container.
class Ranks {
 public:
  Ranks() {
    for (const char* const name :
         {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"})
      ::setenv(name, "1", 1);
    ::setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 1);
  }
  static bool can_run() {
#ifdef LACUNA_ADDRESS_SANITIZER
    ::setenv("ASAN_OPTIONS", "detect_leaks=0", 1);  // Open MPI and hwloc never free some of their memory
#endif
    if (mpirun()) return true;
    MESSAGE("skipped: there is no mpirun, or this build has no MPI");
    return false;
  }
  CommandRun start(const TemporaryFolder& folder, int size, std::vector<std::string> arguments) const {
    std::vector<std::string> words{"-n", std::to_string(size), LACUNA_BINARY_DIR "/bin/lacuna"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return CommandRun(folder, std::move(words), {}, *mpirun());
  }
  CommandResult run(const TemporaryFolder& folder, int size, std::vector<std::string> arguments) const {
    return start(folder, size, std::move(arguments)).wait();
  }
};

/// The ranks that `run` started, by number.
std::map<int, pid_t> ranks_of(const TemporaryFolder& folder) {
  std::map<int, pid_t> found;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::error_code gone;
    if (fs::read_symlink(entry.path() / "cwd", gone) != folder.path() || gone) continue;
    std::ifstream environment(entry.path() / "environ");
    std::ifstream words(entry.path() / "cmdline");
    std::string program;
    std::getline(words, program, '\0');
    if (!program.ends_with("/lacuna")) continue;
    for (std::string variable; std::getline(environment, variable, '\0');)
      for (const std::string_view key : {"OMPI_COMM_WORLD_RANK=", "PMI_RANK=", "LACUNA_RANK="})
        if (variable.starts_with(key)) found[std::stoi(variable.substr(key.size()))] = std::stoi(name);
  }
  return found;
}

/// Starts two ranks that train without end, and returns once a checkpoint is there.
CommandRun start_endless(const Ranks& ranks, const TemporaryFolder& folder) {
  CommandRun run = ranks.start(
      folder, 2, train({"train.epochs=1000000", "output.dir=r", "train.accumulate=1", "output.save_every_steps=1"}));
  while (run.running() && lines_in(folder / "r/metrics.jsonl") < 6)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return run;
}

double seconds_until_end(CommandRun& run, CommandResult& result) {
  const auto start = std::chrono::steady_clock::now();
  result = run.wait();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

constexpr std::string_view bert =
    "model: {name: bert, hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 32,\n"
    "        vocab_size: 100, max_position_embeddings: 16}\n"
    "data: {name: random_tokens, length: [5, 9, 16], vocabulary: 100, train_size: 24, val_size: 10}\n"
    "train: {epochs: 2, batch_size: 8, threads: 1}\n"
    "optimizer: {name: adamw, lr: 1e-3}\n"
    "memory: {policy: fixed, bits: 4}\n";

}  // namespace

TEST_CASE("ranks: 2 and 4 processes write the files of one that accumulates") {
  if (!Ranks::can_run()) return;
  const Ranks ranks;
  for (const auto& [configuration, size] : {std::pair{vit, 2}, std::pair{vit, 4}, std::pair{bert, 2}}) {
    CAPTURE(size);
    const TemporaryFolder folder(configuration);
    run(folder, train({"output.dir=one", fmt::format("train.accumulate={}", size)}));
    const CommandResult result = ranks.run(folder, size, train({"output.dir=several", "train.accumulate=1"}));
    INFO(result.error);
    REQUIRE(result.code == 0);
    check_same_checkpoint(folder, "one", "several");
    CHECK(noted(folder / "one") == noted(folder / "several"));
    CHECK(std::ranges::count(result.out, '\n') < 30);  // one process tells of the run
  }
}

TEST_CASE("ranks: --gpus starts a process for each GPU, with the bits of one that accumulates, and needs no MPI") {
  const std::string stand_in = "LACUNA_CUDA_LIBRARY=" LACUNA_BINARY_DIR "/lib/liblacuna_stand_in.so";
  const TemporaryFolder folder(vit);
  const auto start = [&](int count, const std::vector<std::string>& changes) {
    std::vector<std::string> words{stand_in, LACUNA_BINARY_DIR "/bin/lacuna"};
    for (const std::string& word : train(changes)) words.push_back(word);
    if (count > 0) words.insert(words.end(), {"--gpus", std::to_string(count)});
    return CommandRun(folder, words, {}, "/usr/bin/env");
  };
  const auto on_gpus = [&](int count, const std::vector<std::string>& changes) { return start(count, changes).wait(); };
  REQUIRE(on_gpus(0, {"output.dir=one", "train.device=cuda", "train.graph=false", "train.accumulate=2"}).code == 0);
  const CommandResult two = on_gpus(2, {"output.dir=two", "train.accumulate=1"});
  INFO(two.error);
  REQUIRE(two.code == 0);
  check_same_checkpoint(folder, "one", "two");
  CHECK(on_gpus(4, {"output.dir=four"}).code == 2);  // there are two
  const CommandResult refused = on_gpus(2, {"output.dir=cpu", "train.device=cpu"});
  CHECK(refused.code == 2);
  CHECK(std::ranges::count(refused.error, '\n') == 1);  // the ranks that end with it are no error of their own
  const CommandResult none = run_program(
      folder, "/usr/bin/env",
      {"LACUNA_CUDA_LIBRARY=none.so", LACUNA_BINARY_DIR "/bin/lacuna", "train", "-c", "c.yaml", "--gpus", "2"});
  CHECK(none.code == 2);
  check_says(none.error, "none.so");
  CHECK(none.error.find("rank 0") == std::string::npos);  // no rank was started
  for (const int signal : {SIGKILL, SIGTERM}) {           // of one rank: it ends all, or all stop after the same step
    const std::string name = fmt::format("ended_by_{}", signal);
    CommandRun run =
        start(2, {"output.dir=" + name, "train.accumulate=1", "train.epochs=1000000", "output.save_every_steps=1"});
    while (run.running() && lines_in(folder / name / "metrics.jsonl") < 6)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const std::map<int, pid_t> pids = ranks_of(folder);
    REQUIRE(pids.size() == 2);
    ::kill(pids.at(1), signal);
    CHECK(run.wait().code == 128 + signal);
    CHECK(fs::exists(folder / name / "last/checkpoint.json"));
  }
}

TEST_CASE("ranks: a stop on one rank saves, and another number of ranks goes on to the same bits") {
  if (!Ranks::can_run()) return;
  const Ranks ranks;
  const TemporaryFolder folder(vit);
  CommandRun stopped = start_endless(ranks, folder);
  const std::map<int, pid_t> pids = ranks_of(folder);
  REQUIRE(pids.size() == 2);
  ::kill(pids.at(1), SIGTERM);
  CHECK(stopped.wait().code != 0);
  const auto step = read_json(folder / "r/last/checkpoint.json")["progress"]["step"].get<int>();
  CHECK(step >= 5);  // the sixth line is of the fifth step: four make an epoch, which has a line too
  CHECK(read_json(folder / "r/summary.json")["stopped"] == true);
  const std::string steps = fmt::format("train.steps={}", step + 3);
  run(folder,
      train({"output.dir=whole", "train.epochs=1000000", "train.accumulate=2", steps, "output.save_every_steps=1"}));
  fs::copy(folder / "r", folder / "again", fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  run(folder, {"train", "--resume", "r", "train.accumulate=2", steps});
  check_same_checkpoint(folder, "r", "whole");
  const CommandResult again = ranks.run(folder, 2, {"train", "--resume", "again", steps});
  INFO(again.error);
  REQUIRE(again.code == 0);
  check_same_checkpoint(folder, "again", "whole");
}

TEST_CASE("ranks: one that is killed ends all, and the last checkpoint is whole") {
  if (!Ranks::can_run()) return;
  const Ranks ranks;
  const TemporaryFolder folder(vit);
  CommandRun run = start_endless(ranks, folder);
  ::kill(ranks_of(folder).at(1), SIGKILL);
  CommandResult result;
  CHECK(seconds_until_end(run, result) < 10);
  CHECK(result.code != 0);
  const CommandResult resumed = ranks.run(folder, 2, {"train", "--resume", "r", "train.epochs=4"});
  INFO(resumed.error);
  CHECK(resumed.code == 0);
}

TEST_CASE("ranks: lacuna-restarts goes on after one was killed, to the bits of a run that was not") {
  if (!Ranks::can_run()) return;
  const Ranks ranks;
  const TemporaryFolder folder(vit);
  const std::vector<std::string> settings{"train.accumulate=1", "train.epochs=20", "output.save_every_steps=1"};
  const auto to = [&](const std::string& run) {
    std::vector<std::string> words = train(settings);
    words.push_back("output.dir=" + run);
    return words;
  };
  std::vector<std::string> words{"1", *mpirun(), "-n", "2", LACUNA_BINARY_DIR "/bin/lacuna"};
  std::ranges::copy(to("killed"), std::back_inserter(words));
  CommandRun run(folder, std::move(words), {}, LACUNA_SOURCE_DIR "/tools/lacuna-restarts");
  while (run.running() && lines_in(folder / "killed/metrics.jsonl") < 6)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ::kill(ranks_of(folder).at(1), SIGKILL);
  const CommandResult result = run.wait();
  INFO(result.error);
  CHECK(result.code == 0);
  REQUIRE(ranks.run(folder, 2, to("whole")).code == 0);
  check_same_checkpoint(folder, "killed", "whole");
  // A wrong setting does not get better by being tried again.
  const CommandResult wrong = run_program(
      folder, LACUNA_SOURCE_DIR "/tools/lacuna-restarts",
      {"3", LACUNA_BINARY_DIR "/bin/lacuna", "train", "-c", "c.yaml", "output.dir=wrong", "train.batch_size=0"});
  CHECK(wrong.code == 2);
  CHECK(wrong.error.find("restart 1") == std::string::npos);
}

TEST_CASE("ranks: evaluation counts each sample once, and the figures of classes are those of one process") {
  if (!Ranks::can_run()) return;
  const Ranks ranks;
  const TrainedFolder folder;
  const nlohmann::json one = run(folder, {"eval", "r", "--json", "-"}).json();
  const CommandResult result = ranks.run(folder, 2, {"eval", "r", "--json", "-"});
  INFO(result.error);
  REQUIRE(result.code == 0);
  const nlohmann::json two = result.json();
  CHECK(two["samples"] == 10);
  CHECK(two["val_accuracy"] == one["val_accuracy"]);
  CHECK(two["val_loss"].get<double>() == doctest::Approx(one["val_loss"].get<double>()).epsilon(1e-6));
  CHECK(two["classes"]["confusion"] == one["classes"]["confusion"]);
  CHECK(two["classes"]["worst"].size() == one["classes"]["worst"].size());
  for (std::size_t i = 0; i < one["classes"]["worst"].size(); ++i)
    CHECK(two["classes"]["worst"][i]["sample"] == one["classes"]["worst"][i]["sample"]);
}

TEST_CASE("ranks: the ledger of a run counts 8 + 8 / N bytes a parameter with AdamW's state in parts") {
  if (!Ranks::can_run()) return;
  const Ranks ranks;
  const TemporaryFolder folder(vit);
  const CommandResult result =
      ranks.run(folder, 4, train({"output.dir=r", "train.accumulate=1", "train.epochs=1", "ranks.shard=optimizer"}));
  INFO(result.error);
  REQUIRE(result.code == 0);
  const auto parameters = read_json(folder / "r/summary.json")["parameters"].get<std::int64_t>();
  const nlohmann::json memory = read_json(folder / "r/summary.json")["memory"];
  std::int64_t bytes = 0;
  for (const char* const purpose : {"parameters", "gradients", "optimizer"})
    bytes += memory[purpose].get<std::int64_t>();
  // Small tensors do not divide evenly, and each has a counter of its steps.
  CHECK(static_cast<double>(bytes) == doctest::Approx((8 + 8.0 / 4) * static_cast<double>(parameters)).epsilon(0.05));
}

TEST_CASE("ranks: one that hangs is named, and all end") {
  if (!Ranks::can_run()) return;
  const Ranks ranks;
  const TemporaryFolder folder(vit);
  CommandRun run = start_endless(ranks, folder);
  ::kill(ranks_of(folder).at(1), SIGSTOP);
  CommandResult result;
  CHECK(seconds_until_end(run, result) < 10);
  CHECK(result.code != 0);
  INFO(result.error);
  check_says(result.error, "rank 1");
  CHECK(ranks_of(folder).empty());
}

TEST_CASE("ranks: a wrong setting is told once, with exit code 2") {
  if (!Ranks::can_run()) return;
  const Ranks ranks;
  const TemporaryFolder folder(vit);
  const CommandResult odd = ranks.run(folder, 2, train({"train.batch_size=7", "train.accumulate=1"}));
  INFO(odd.error);
  CHECK(odd.code == 2);
  check_says(odd.error, "train.batch_size");
  CHECK(odd.error.find("train.batch_size: 7") == odd.error.rfind("train.batch_size: 7"));
  CHECK_FALSE(fs::exists(folder / "runs"));
}

TEST_CASE("ranks: plan says what a rank takes and sends") {
  const TemporaryFolder folder(vit);
  const auto plan = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"plan", "-c", "c.yaml", "train.accumulate=1", "--json", "-"});
    return run(folder, more).json();
  };
  const nlohmann::json one = plan({}), four = plan({"--ranks", "4"}),
                       sharded = plan({"--ranks", "4", "ranks.shard=optimizer"}),
                       half = plan({"--ranks", "4", "ranks.exchange=bf16"}),
                       quarter = plan({"--ranks", "4", "ranks.exchange=int8"}),
                       in_parts = plan({"--ranks", "4", "ranks.shard=gradients"}),
                       slow = plan({"--ranks", "4", "--bandwidth", "1Mbit"});
  CHECK_FALSE(one.contains("exchange"));
  CHECK(4 * four["memory"]["data"].get<std::int64_t>() == one["memory"]["data"]);
  const auto gradients = four["exchange"]["gradient_bytes"].get<std::int64_t>();
  CHECK(gradients == 4 * one["trainable_parameters"].get<std::int64_t>());
  CHECK(four["exchange"]["sent_bytes"] == gradients * 3 / 2);
  CHECK(half["exchange"]["gradient_bytes"] == gradients / 2);
  CHECK(sharded["memory"]["optimizer"].get<std::int64_t>() < four["memory"]["optimizer"].get<std::int64_t>() / 3);
  CHECK(quarter["exchange"]["gradient_bytes"].get<std::int64_t>() < gradients * 27 / 100);
  CHECK(in_parts["memory"]["optimizer"] == sharded["memory"]["optimizer"]);
  CHECK(in_parts["exchange"]["sent_bytes"] < sharded["exchange"]["sent_bytes"]);
  CHECK(slow["exchange"]["exposed_seconds"] > four["exchange"]["exposed_seconds"]);
  const nlohmann::json on_card = plan({"--ranks", "4", "train.device=cuda", "--card", "8GiB"});
  CHECK(on_card["exchange"]["seconds"] == four["exchange"]["seconds"]);
  CHECK(on_card["exchange"]["bytes_per_second"] == 1.25e8);
  CHECK_FALSE(on_card["exchange"].contains("exposed_seconds"));  // no time of a CPU
  CHECK_FALSE(on_card["exchange"].contains("backward_seconds"));
  check_refusals(folder, {"plan", "-c", "c.yaml"},
                 {{"ranks={exchange: int8, shard: gradients}", "ranks.exchange"},
                  {"--ranks\n3", "train.batch_size"},
                  {"--ranks\n4\n--latency\n5", "--latency"}});
}

TEST_CASE("ranks: a launcher of another MPI is refused, and one process loads no MPI") {
  if (!Ranks::can_run()) return;
  const TemporaryFolder folder(vit);
  const auto with_environment = [&](std::vector<std::string> words) {
    words.insert(words.end(), {LACUNA_BINARY_DIR "/bin/lacuna", "train", "-c", "c.yaml", "train.epochs=1"});
    return run_program(folder, "/usr/bin/env", std::move(words));
  };
  const CommandResult mixed = with_environment({"PMI_RANK=0", "PMI_SIZE=2"});
  INFO(mixed.error);
  CHECK(mixed.code == 2);
  const CommandResult traced = with_environment({"LD_DEBUG=files"});
  CHECK(traced.code == 0);
  check_says(traced.error, "liblacuna.so");
  CHECK(traced.error.find("libmpi") == std::string::npos);
}

}  // namespace lacuna::test
