// The built command from end to end, on models and data small enough for a test.
#include "models/safetensors.h"
#include "tests/apps/command_run.h"

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>
#include <utility>

namespace lacuna::test {

void CommandRun::limit_files(long bytes) {
  const struct rlimit limit { .rlim_cur = static_cast<rlim_t>(bytes), .rlim_max = static_cast<rlim_t>(bytes) };
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

namespace {

namespace fs = std::filesystem;

// Four steps an epoch.
constexpr std::string_view vit =
    "model: {name: vit, image_size: 8, patch_size: 4, embed_dim: 8, depth: 2, num_heads: 2, drop_path_rate: 0.2,\n"
    "        proj_drop_rate: 0.1}\n"
    "data: {name: shapes, train_size: 35, val_size: 10, augment: crop_flip}\n"
    "train: {epochs: 3, batch_size: 8, accumulate: 2, threads: 1, clip_norm: 1}\n"
    "optimizer: {name: adamw, lr: 1e-3}\n"
    "schedule: {name: cosine, warmup_epochs: 1}\n";
constexpr std::string_view resnet =
    "model: {name: resnet, image_size: 8, block: basic, layers: [1], channels: [8], stem: cifar, stem_width: 8}\n"
    "data: {name: shapes, train_size: 35, val_size: 10, augment: crop_flip}\n"
    "train: {epochs: 3, batch_size: 8, threads: 1}\n"
    "optimizer: {name: sgd, lr: 0.1, momentum: 0.9}\n"
    "schedule: {name: step, milestones: [1, 2]}\n";

std::vector<std::string> train(std::vector<std::string> rest) {
  std::vector<std::string> arguments{"train", "-c", "c.yaml"};
  arguments.insert(arguments.end(), rest.begin(), rest.end());
  return arguments;
}

std::size_t lines_in(const fs::path& path) {
  const std::string text = read_file(path);
  return static_cast<std::size_t>(std::ranges::count(text, '\n'));
}

/// Trains without end and, when `steps` steps are noted, sends `signal`.
CommandResult stop_after(const TemporaryFolder& folder, std::size_t steps, int signal,
                         const std::string& schedule = "cosine") {
  CommandRun run(folder, train({"train.epochs=1000000", "output.dir=r", "output.save_every_steps=1",
                                "schedule.name=" + schedule}));
  while (run.running() && lines_in(folder / "r/metrics.jsonl") < steps)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  run.signal(signal);
  return run.wait();
}

/// Trains `vit` with an evaluation without end and sends `signal` within it, after `steps` steps.
CommandResult stop_in_evaluation(const TemporaryFolder& folder, std::size_t steps, std::vector<std::string> rest) {
  rest.insert(rest.end(), {"output.dir=r", "data.val_size=10000000"});
  CommandRun run(folder, train(std::move(rest)));
  while (run.running() && lines_in(folder / "r/metrics.jsonl") < steps)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  run.signal(SIGTERM);
  return run.wait();
}

nlohmann::json read_json(const fs::path& path) { return nlohmann::json::parse(read_file(path)); }

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

void check_same_checkpoint(const TemporaryFolder& folder, std::string_view one, std::string_view other) {
  for (const char* const name : {"last/model.safetensors", "last/optimizer.safetensors", "last/checkpoint.json"}) {
    const std::string content = read_file(folder / one / name);
    CHECK(!content.empty());
    CHECK_MESSAGE((content == read_file(folder / other / name)), name);
  }
}

}  // namespace

TEST_CASE("train: writes a run folder with configuration, metrics, summary and checkpoints") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", vit);
  const CommandResult result = run_command(folder, train({"--json", "s.json"}));
  INFO(result.error);
  REQUIRE(result.code == 0);
  CHECK(result.out.find("epoch 3/3: train loss") != std::string::npos);
  const nlohmann::json summary = read_json(folder / "runs/c/summary.json");
  CHECK(summary == read_json(folder / "s.json"));
  for (const char* const key : {"model", "device", "precision", "batch_size", "threads", "policy", "parameters",
                                "process_peak", "samples_per_second", "train_loss", "val_loss", "val_accuracy"})
    CHECK_MESSAGE(summary.contains(key), key);
  for (const char* const key :
       {"parameters", "gradients", "optimizer", "saved", "transient", "workspace", "data", "peak"})
    CHECK_MESSAGE(summary.at("memory").contains(key), key);
  for (const char* const key : {"min", "median", "max"}) CHECK(summary.at("step_seconds").at(key) > 0);
  CHECK(summary.at("steps") == 12);
  CHECK(summary.at("epochs") == 3);
  CHECK(lines_in(folder / "runs/c/metrics.jsonl") == 12 + 3);
  CHECK(fs::exists(folder / "runs/c/last/checkpoint.json"));
  CHECK(fs::exists(folder / "runs/c/best/model.safetensors"));
  CHECK(std::distance(fs::directory_iterator(folder / "runs/c/checkpoints"), {}) <= 3);

  const CommandResult evaluated = run_command(folder, {"eval", "runs/c", "--json", "-"});
  REQUIRE(evaluated.code == 0);
  const nlohmann::json place = read_json(folder / "runs/c/best/checkpoint.json");
  CHECK(evaluated.json().at("val_accuracy") == place.at("place").at("best").at("accuracy"));

  const CommandResult again = run_command(folder, train({}));
  CHECK(again.code == 2);
  CHECK(again.error.find("runs/c holds a run already") != std::string::npos);
  CHECK(run_command(folder, train({"--overwrite", "train.steps=1"})).code == 0);
  CHECK(read_json(folder / "runs/c/summary.json").at("steps") == 1);
}

TEST_CASE("train: a resumed run gives the bits of an unbroken one") {
  struct Case {
    std::string_view configuration;
    std::vector<std::string> overrides;
  };
  const Case cases[] = {{vit, {}},
                        {resnet, {}},
                        {vit, {"train.threads=2"}},
                        {resnet, {"train.threads=2", "train.precision=bf16"}},
                        {vit, {"train.precision=bf16", "freeze.train=[\"head*\", \"*norm*\"]"}},
                        {vit, {"memory.policy=mesa"}},
                        {resnet, {"memory.policy=fixed", "memory.recompute=[\"layer*\"]"}},
                        {vit, {"memory={policy: adaptive, bits: 2.5, measure_every: 2}", "train.threads=2"}},
                        {resnet, {"freeze.freeze=[\"*bn*\"]", "model.from=from.safetensors"}}};
  for (const Case& one : cases) {
    const TemporaryFolder folder;
    write_file(folder / "c.yaml", one.configuration);
    REQUIRE(run_command(folder, train({"train.seed=5", "train.steps=1", "output.dir=from"})).code == 0);
    fs::copy_file(folder / "from/last/model.safetensors", folder / "from.safetensors");
    const auto run = [&](std::vector<std::string> arguments) {
      arguments.insert(arguments.end(), one.overrides.begin(), one.overrides.end());
      const CommandResult result = run_command(folder, train(std::move(arguments)));
      INFO(result.error);
      REQUIRE(result.code == 0);
    };
    run({"output.dir=whole"});
    run({"output.dir=parts", "train.steps=2"});
    fs::remove(folder / "from.safetensors");  // a run that goes on has its weights in its checkpoints
    run({"--resume", "parts", "train.steps=5"});
    REQUIRE(run_command(folder, {"train", "--resume", "parts", "train.steps=0"}).code == 0);
    check_same_checkpoint(folder, "whole", "parts");
    CHECK(lines_in(folder / "parts/metrics.jsonl") == lines_in(folder / "whole/metrics.jsonl"));
    // Nothing is left to do, and the summary says all it did before.
    REQUIRE(run_command(folder, {"train", "--resume", "parts"}).code == 0);
    const nlohmann::json whole = read_json(folder / "whole/summary.json"),
                         again = read_json(folder / "parts/summary.json");
    for (const auto& [key, value] : whole.items()) CHECK_MESSAGE(again.contains(key), key);
    CHECK(again.at("val_accuracy") == whole.at("val_accuracy"));
    CHECK(again.at("step_seconds").is_null());
  }
}

TEST_CASE("train: a classifier that starts anew is announced") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", vit);
  REQUIRE(run_command(folder, train({"output.dir=one", "train.steps=1", "model.num_classes=12"})).code == 0);
  const CommandResult result = run_command(folder, train({"model.from=one/last", "train.steps=1"}));
  CHECK(result.code == 0);
  CHECK(result.out.find("the classifier head starts anew: 12 classes in one/last, 10 now") != std::string::npos);
}

TEST_CASE("train: what a run may not change when it goes on is refused, what it may is not") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", vit);
  REQUIRE(run_command(folder, train({"output.dir=r", "train.steps=2", "freeze.freeze=[\"cls_token\"]"})).code == 0);
  const auto resume = [&](std::vector<std::string> rest) {
    rest.insert(rest.begin(), {"train", "--resume", "r"});
    return run_command(folder, std::move(rest));
  };
  for (const std::string change :
       {"train.batch_size=16", "train.accumulate=1", "train.seed=2", "data.seed=2", "data.train_size=36"}) {
    const CommandResult result = resume({change});
    INFO(change, result.error);
    CHECK(result.code == 2);
    CHECK(result.error.find("the run cannot go on with other values of these") != std::string::npos);
    CHECK(result.error.find(change.substr(0, change.find('='))) != std::string::npos);
  }
  const CommandResult other = resume({"optimizer={name: sgd, momentum: 0.9}"});
  CHECK(other.code == 2);
  CHECK(other.error.find("head.weight.momentum_buffer: expected f32 [10, 8], got nothing") != std::string::npos);
  CHECK(other.error.find("head.weight.exp_avg: expected nothing, got F32 [10, 8]") != std::string::npos);
  const CommandResult overwrite = resume({"--overwrite"});
  CHECK(overwrite.code == 2);
  CHECK(overwrite.error.find("expected one of them") != std::string::npos);

  const CommandResult thawed = resume({"train.steps=3", "freeze.freeze=[]", "optimizer.lr=1e-4", "memory.policy=keep"});
  INFO(thawed.error);
  CHECK(thawed.code == 0);
  CHECK(thawed.out.find("1 parameters were frozen before") != std::string::npos);
  CHECK(resume({"train.steps=4", "freeze.train=[\"head*\"]"}).code == 0);
}

TEST_CASE("train: what stands beside the checkpoints is never taken for one, nor removed") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", vit);
  const std::vector<std::string> begin = train({"output.dir=r", "train.steps=2"});
  REQUIRE(run_command(folder, begin).code == 0);
  // A step of another run, and one that a killed save left.
  fs::copy(folder / "r/checkpoints/step-00000002", folder / "r/checkpoints/step-00000003", fs::copy_options::recursive);
  fs::create_directory(folder / "r/checkpoints/step-00000004.tmp");
  fs::create_directory(folder / "r/checkpoints/step-mine");
  write_file(folder / "r/checkpoints/notes.tmp", "mine");
  write_file(folder / "r/summary.json.123.tmp", "{");
  REQUIRE(run_command(folder, {"train", "--resume", "r", "train.steps=3", "output.keep=1"}).code == 0);
  CHECK(names_in(folder / "r/checkpoints") == std::set<std::string>{"step-00000003", "step-mine", "notes.tmp"});
  CHECK(!fs::exists(folder / "r/summary.json.123.tmp"));
  REQUIRE(run_command(folder, train({"output.dir=whole", "train.steps=3"})).code == 0);
  CHECK(read_file(folder / "r/last/model.safetensors") == read_file(folder / "whole/last/model.safetensors"));

  fs::remove(folder / "r/config.yaml");
  const CommandResult orphans = run_command(folder, begin);
  CHECK(orphans.code == 2);
  CHECK(orphans.error.find("holds checkpoints without a config.yaml") != std::string::npos);
  std::vector<std::string> replacing = begin;
  replacing.push_back("--overwrite");
  CHECK(run_command(folder, replacing).code == 0);
  CHECK(names_in(folder / "r/checkpoints") == std::set<std::string>{"step-00000002"});
}

TEST_CASE("train: the best checkpoint is kept without any between") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", vit);
  REQUIRE(run_command(folder, train({"output.dir=r", "output.save_every=0", "output.keep=1"})).code == 0);
  const nlohmann::json last = read_json(folder / "r/last/checkpoint.json").at("place"),
                       best = read_json(folder / "r/best/checkpoint.json").at("place");
  CHECK(best.at("last") == last.at("best"));
}

TEST_CASE("train: a signal ends the step, saves, and is told by the exit code") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", vit);
  for (const int signal : {SIGINT, SIGTERM}) {
    const CommandResult result = stop_after(folder, 3, signal);
    INFO(result.error);
    CHECK(result.code == 128 + signal);
    REQUIRE(fs::exists(folder / "r/last/checkpoint.json"));
    CHECK(run_command(folder, {"train", "--resume", "r", "train.steps=1"}).code == 0);
    fs::remove_all(folder / "r");
  }
}

TEST_CASE("train: a signal during an evaluation ends it too") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", vit);
  CHECK(stop_in_evaluation(folder, 4, {}).code == 128 + SIGTERM);
  const nlohmann::json place = read_json(folder / "r/last/checkpoint.json").at("place");
  CHECK(place.at("step") == 4);
  CHECK(place.at("epochs_evaluated") == 0);
  // The evaluation is made up for.
  CHECK(run_command(folder, {"train", "--resume", "r", "train.steps=4", "data.val_size=10"}).code == 0);
  CHECK(read_json(folder / "r/summary.json").at("epochs") == 1);
}

TEST_CASE("train: a signal during the last evaluation leaves the run to be gone on with") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", vit);
  for (const auto& [steps, end] : {std::pair{4U, "train.epochs=1"}, std::pair{3U, "train.steps=3"}}) {
    CHECK(stop_in_evaluation(folder, steps, {end, "schedule.warmup_epochs=0"}).code == 128 + SIGTERM);
    CHECK(run_command(folder, {"train", "--resume", "r", "data.val_size=10"}).code == 0);
    CHECK(read_json(folder / "r/summary.json").at("val_accuracy").is_number());
    fs::remove_all(folder / "r");
  }
}

TEST_CASE("train: a run killed at any moment can be gone on with") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", vit);
  // A rate that does not know how long the run is; and steps enough that a late signal comes before the last one.
  REQUIRE(run_command(folder, train({"output.dir=whole", "train.epochs=20", "schedule.name=constant"})).code == 0);
  for (const std::size_t steps : {2U, 5U, 6U}) {
    CHECK(stop_after(folder, steps, SIGKILL, "constant").code == 128 + SIGKILL);
    const CommandResult resumed =
        run_command(folder, train({"--resume", "r", "train.epochs=20", "schedule.name=constant"}));
    INFO(resumed.error);
    CHECK(resumed.code == 0);
    check_same_checkpoint(folder, "whole", "r");
    fs::remove_all(folder / "r");
  }
}

TEST_CASE("train: a full disk leaves the older checkpoint whole") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", vit);
  REQUIRE(run_command(folder, train({"output.dir=r", "train.steps=2"})).code == 0);
  const CommandResult full = run_command(folder, {"train", "--resume", "r", "train.steps=3"}, 4096);
  CHECK(full.code == 2);
  CHECK(full.error.find("cannot write") != std::string::npos);
  CHECK(fs::read_symlink(folder / "r/last") == "checkpoints/step-00000002");
  CHECK(std::distance(fs::directory_iterator(folder / "r/checkpoints"), {}) == 1);
  CHECK(run_command(folder, {"train", "--resume", "r", "train.steps=3"}).code == 0);
}

TEST_CASE("train: a loss that is not finite names step, layer and the largest values") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", vit);
  const auto diverge = [&](const std::string& lr, std::vector<std::string> rest) {
    rest.insert(rest.end(), {"optimizer={name: sgd, lr: " + lr + "}", "schedule={name: constant}", "--overwrite"});
    const CommandResult result = run_command(folder, train(std::move(rest)));
    CHECK(result.code == 1);
    CHECK(result.error.starts_with("lacuna: step "));
    CHECK(result.error.find("The first value that is not finite came out of ") != std::string::npos);
    CHECK(result.error.find("The largest values until then:\n") != std::string::npos);
    return result.error;
  };
  const std::string forward = diverge("1e30", {"train.clip_norm=0"});
  CHECK(forward.find("the loss is ") != std::string::npos);
  CHECK(forward.find("(forward)") != std::string::npos);
  CHECK(forward.find(" in blocks.") != std::string::npos);

  // Zeros times large weights: what comes out is finite, its gradient is not.
  REQUIRE(run_command(folder, train({"train.steps=1", "output.dir=one"})).code == 0);
  std::vector<NamedTensor> weights;
  const SafetensorsFile file(folder / "one/last/model.safetensors");
  for (const SafetensorsEntry& entry : file.entries()) {
    weights.emplace_back(entry.name, file.load(entry.name));
    if (entry.name.starts_with("blocks.1.mlp.fc1.")) weights.back().second.fill(0);
    if (entry.name == "blocks.1.mlp.fc2.weight") weights.back().second.fill(3e38);
    if (entry.name == "head.weight")
      for (std::int64_t i = 0; i < weights.back().second.count(); ++i) weights.back().second.data<float>()[i] *= 1e10F;
  }
  write_safetensors(folder / "large.safetensors", weights);
  for (const char* const clip : {"train.clip_norm=0", "train.clip_norm=1"}) {
    const std::string backward = diverge("1e-3", {"model.from=large.safetensors", "model.drop_path_rate=0", clip});
    INFO(backward);
    CHECK(backward.starts_with("lacuna: step 1: the loss is "));
    CHECK(backward.find("but the gradients' norm is ") != std::string::npos);
    CHECK(backward.find("came out of linear in blocks.1.mlp.fc2 (backward)") != std::string::npos);
  }
}

TEST_CASE("train: a checkpoint that has changed is refused") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", vit);
  REQUIRE(run_command(folder, train({"output.dir=r", "train.steps=2"})).code == 0);
  std::string weights = read_file(folder / "r/last/model.safetensors");
  weights.back() = static_cast<char>(weights.back() ^ 1);
  write_file(folder / "r/last/model.safetensors", weights);
  const CommandResult result = run_command(folder, {"train", "--resume", "r"});
  CHECK(result.code == 2);
  CHECK(result.error.find("model.safetensors has changed since it was written") != std::string::npos);
}

TEST_CASE("command: wrong input ends with 2 and leaves nothing behind") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", vit);
  REQUIRE(run_command(folder, train({"model.depth=1", "train.steps=1", "output.dir=one"})).code == 0);
  fs::copy_file(folder / "one/last/model.safetensors", folder / "other.safetensors");
  const auto refused = [&](std::vector<std::string> arguments, std::string_view reason) {
    const CommandResult result = run_command(folder, std::move(arguments));
    INFO(result.error);
    CHECK(result.code == 2);
    CHECK(result.error.find(reason) != std::string::npos);
    CHECK(result.out.empty());
    CHECK(!fs::exists(folder / "runs"));
  };
  refused(train({"train.epoch=3"}), "command line: unknown key in section train: \"epoch\", did you mean \"epochs\"?");
  refused(train({"model.patch_size=3"}), "`patch_size` 3 does not divide `image_size` 8");
  refused(train({"model.num_heads=3"}), "`num_heads` 3 does not divide `embed_dim` 8");
  refused(train({"train.batch_size=64"}), "train.batch_size is 64, but the data set shapes has 35");
  refused(train({"train.accumulate=3"}), "train.accumulate: expected a divisor of train.batch_size (8), got 3");
  refused(train({"freeze.train=[\"hed*\"]"}), "the pattern `hed*` matches no parameter");
  refused(train({"data.name=cifar10", "data.path=nowhere"}), "nowhere");
  refused(train({"model.from=nowhere.safetensors"}), "nowhere.safetensors");
  refused(train({"schedule.warmup_epochs=7"}), "warm-up");
  refused(train({"train.device=meta"}), "train.device");
  refused(train({"model.in_channels=1"}), "model.in_channels is 1, but the images of the data set shapes have 3");
  refused(train({"train.batch_size=1e15"}), "train.batch_size: expected 1 to 2147483647");
  refused({"plan", "-c", "c.yaml", "train.batch_size=2147483647", "train.accumulate=1", "model.image_size=4096",
           "model.patch_size=4096"},
          "any machine's memory");
  refused({"plan", "-c", "c.yaml", "data.image_size=8", "train.batch_size=0"},
          "train.batch_size: expected 1 to 2147483647");
  for (const std::string command : {"train", "plan", "bench", "explain"})
    refused({command, "-c", "c.yaml", "freeze.freeze=[\"*\"]"}, "freeze: ");
  refused(train({"--json", "nowhere/s.json"}), "there is no folder nowhere");
  refused(train({"--json", "."}), "it is a folder");
  refused(train({"model.num_classes=3"}), "model.num_classes is 3, but the data set shapes has 10 classes");
  refused(train({"train.batch_size=1000000000", "data.train_size=1000000000"}),
          "out of memory: training with batches of 1000000000 needs ");
  refused(train({"model.from=other.safetensors"}), "blocks.1");
  refused({"train"}, "expected -c CONFIG");
  refused({"train", "--resume", "nowhere"}, "nowhere holds no run");
  refused({"train", "-c", "nowhere.yaml"}, "nowhere.yaml: there is no such file");
  refused({"eval"}, "expected a run folder");
  refused({"eval", "one", "model.from=other.safetensors"}, "the weights are those of the run");
  refused({"eval", "one", "train.device=meta"}, "nothing can be evaluated on meta");
  refused({"verify", "c.yaml"}, "c.yaml: ");
  refused({"verify", "nowhere"}, "cannot open nowhere");
  refused({"train", "--jsn"}, "--jsn");
  refused({"trian"}, "unknown command \"trian\", did you mean \"train\"?");
}

TEST_CASE("command: plan and bench share the documented keys") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", vit);
  const nlohmann::json plan = run_command(folder, {"plan", "-c", "c.yaml", "--json", "-"}).json();
  const nlohmann::json bench = run_command(folder, {"bench", "-c", "c.yaml", "--steps", "1", "--json", "-"}).json();
  const std::set<std::string> measured{"process_peak", "samples_per_second", "step_seconds"};
  for (const std::string key :
       {"model", "device", "precision", "batch_size", "threads", "policy", "parameters", "trainable_parameters",
        "memory", "saved_by_path", "process_peak", "samples_per_second", "step_seconds"}) {
    CHECK_MESSAGE(plan.contains(key) != measured.contains(key), key);
    CHECK_MESSAGE(bench.contains(key), key);
  }
  for (const std::string key :
       {"parameters", "gradients", "optimizer", "saved", "transient", "workspace", "data", "peak"}) {
    CHECK_MESSAGE(plan.at("memory").at(key).is_number_integer(), key);
    CHECK_MESSAGE(bench.at("memory").at(key).is_number_integer(), key);
  }
  CHECK(plan.at("device") == "meta");
  CHECK(bench.at("device") == "cpu");
  for (const char* const key : {"min", "median", "max"}) CHECK(bench.at("step_seconds").at(key) > 0);
  const nlohmann::json both =
      run_command(folder, {"plan", "-c", "c.yaml", "--policies", "keep,exact", "--json", "-"}).json();
  REQUIRE(both.size() == 2);
  CHECK(both[0].at("memory").at("saved") > both[1].at("memory").at("saved"));
}

TEST_CASE("command: --json - gives JSON and nothing else") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", vit);
  const std::vector<std::vector<std::string>> commands{{"train", "-c", "c.yaml", "train.steps=1"},
                                                       {"plan", "-c", "c.yaml"},
                                                       {"explain", "-c", "c.yaml"},
                                                       {"bench", "-c", "c.yaml", "--steps", "1", "--profile"},
                                                       {"models"},
                                                       {"doctor"}};
  for (std::vector<std::string> arguments : commands) {
    const std::string name = arguments.front();
    arguments.insert(arguments.end(), {"--json", "-"});
    const CommandResult result = run_command(folder, std::move(arguments));
    INFO(name, ": ", result.error);
    CHECK(result.code == 0);
    CHECK(nlohmann::json::accept(result.out));
    CHECK(result.error.empty());
  }
}

}  // namespace lacuna::test
