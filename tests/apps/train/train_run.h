// Training runs of the built command, small enough for a test.
#pragma once

#include "tests/apps/refusals.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

namespace lacuna::test {

namespace fs = std::filesystem;

// Four steps an epoch.
inline constexpr std::string_view vit =
    "model: {name: vit, image_size: 8, patch_size: 4, embed_dim: 8, depth: 2, num_heads: 2, drop_path_rate: 0.2,\n"
    "        proj_drop_rate: 0.1}\n"
    "data: {name: shapes, train_size: 35, val_size: 10, augment: crop_flip}\n"
    "train: {epochs: 3, batch_size: 8, accumulate: 2, threads: 1, clip_norm: 1}\n"
    "optimizer: {name: adamw, lr: 1e-3}\n"
    "schedule: {name: cosine, warmup_epochs: 1}\n";
inline constexpr std::string_view resnet =
    "model: {name: resnet, image_size: 8, block: basic, layers: [1], channels: [8], stem: cifar, stem_width: 8}\n"
    "data: {name: shapes, train_size: 35, val_size: 10, augment: crop_flip}\n"
    "train: {epochs: 3, batch_size: 8, threads: 1}\n"
    "optimizer: {name: sgd, lr: 0.1, momentum: 0.9}\n"
    "schedule: {name: step, milestones: [1, 2]}\n";

inline std::vector<std::string> train(std::vector<std::string> rest) {
  std::vector<std::string> arguments{"train", "-c", "c.yaml"};
  arguments.insert(arguments.end(), rest.begin(), rest.end());
  return arguments;
}

/// A folder with c.yaml and its run `r`, of two steps: a copy of one that is trained once for all tests with the same
/// changes.
struct TrainedFolder : TemporaryFolder {
  explicit TrainedFolder(const std::vector<std::string>& changes = {"train.steps=2"}, std::string_view text = vit)
      : TemporaryFolder(text) {
    static std::map<std::pair<std::vector<std::string>, std::string>, TemporaryFolder> trained;
    const auto [first, is_new] = trained.try_emplace({changes, std::string(text)}, text);
    if (is_new) {
      std::vector<std::string> words = train(changes);
      words.emplace_back("output.dir=r");
      run(first->second, words);
    }
    fs::copy(first->second / "r", *this / "r", fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  }
};

inline std::size_t lines_in(const fs::path& path) {
  const std::string text = read_file(path);
  return static_cast<std::size_t>(std::ranges::count(text, '\n'));
}

/// Whether the set of signals `set` of a process, as the kernel names it, has `signal`.
inline bool has(pid_t process, std::string_view set, int signal) {
  std::istringstream status(read_file("/proc/" + std::to_string(process) + "/status"));
  for (std::string word; status >> word;)
    if (std::uint64_t signals = 0; word == set && status >> std::hex >> signals)
      return (signals >> (signal - 1) & 1) != 0;
  return false;
}

/// Two of one number that are not taken yet are one.
inline void wait_until_taken(CommandRun& run, int signal) {
  while (run.running() && has(run.process(), "ShdPnd:", signal)) std::this_thread::yield();
}

/// Trains without end and, when `steps` steps are noted, sends `signal`.
inline CommandResult stop_after(const TemporaryFolder& folder, std::size_t steps, int signal,
                                const std::string& schedule = "cosine") {
  CommandRun run(folder, train({"train.epochs=1000000", "output.dir=r", "output.save_every_steps=1",
                                "schedule.name=" + schedule}));
  while (run.running() && lines_in(folder / "r/metrics.jsonl") < steps)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  run.signal(signal);
  return run.wait();
}

/// Trains `vit` with an evaluation without end and sends `signal` within it, after `steps` steps.
inline CommandResult stop_in_evaluation(const TemporaryFolder& folder, std::size_t steps,
                                        std::vector<std::string> rest) {
  rest.insert(rest.end(), {"output.dir=r", "data.val_size=10000000"});
  CommandRun run(folder, train(std::move(rest)));
  while (run.running() && lines_in(folder / "r/metrics.jsonl") < steps)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  run.signal(SIGTERM);
  return run.wait();
}

inline std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

/// Paths of all files below.
inline std::set<std::string> files_in(const fs::path& folder) {
  const fs::path real = fs::canonical(folder);
  std::set<std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(real))
    if (entry.is_regular_file()) files.insert(entry.path().lexically_relative(real));
  return files;
}

/// All files of the last checkpoints, and which ones are the best.
inline void check_same_checkpoint(const TemporaryFolder& folder, std::string_view one, std::string_view other) {
  const fs::path last = folder / one / "last";
  const std::set<std::string> names = files_in(last);
  CHECK(names == files_in(folder / other / "last"));
  CHECK(names.contains("model.safetensors"));
  for (const std::string& name : names)
    CHECK_MESSAGE((read_file(last / name) == read_file(folder / other / "last" / name)), name);
  for (const char* const link : {"last", "best"})
    CHECK(fs::read_symlink(folder / one / link) == fs::read_symlink(folder / other / link));
}

/// The recorded steps and evaluations of a run, without times and allocator figures.
inline std::vector<nlohmann::json> noted(const fs::path& run) {
  std::vector<nlohmann::json> lines;
  std::istringstream text(read_file(run / "metrics.jsonl"));
  for (std::string line; std::getline(text, line);) {
    lines.push_back(nlohmann::json::parse(line));
    for (const char* const key : {"seconds", "memory", "peak"}) lines.back().erase(key);
    if (lines.back().contains("measuring")) lines.back()["measuring"] = nullptr;  // that it was, not how long it took
  }
  return lines;
}

}  // namespace lacuna::test
