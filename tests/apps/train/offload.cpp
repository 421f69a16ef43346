// Runs whose saved tensors lie on a file between forward and backward.
#include "tests/apps/train/train_run.h"

namespace lacuna::test {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view wide_vit =
    "model: {name: vit, image_size: 32, patch_size: 4, embed_dim: 48, depth: 3, num_heads: 3}\n"
    "data: {name: shapes, image_size: 32, train_size: 40, val_size: 8}\n"
    "train: {epochs: 1, batch_size: 8, steps: 3, threads: 1}\n";

std::vector<std::string> train(const std::string& dir, std::vector<std::string> more) {
  more.insert(more.begin(), {"train", "-c", "c.yaml", "output.dir=" + dir});
  return more;
}

}  // namespace

TEST_CASE("offload: a run has the weights that it has without, and leaves no file") {
  const TemporaryFolder folder(wide_vit);
  fs::create_directory(folder / "disk");
  for (const std::string memory : {"policy: exact", "policy: fixed, bits: 4", "policy: exact, recompute: [blocks.1]"}) {
    CAPTURE(memory);
    run(folder, train("plain", {"--overwrite", "memory={" + memory + "}"}));
    run(folder, train("off", {"--overwrite", "memory={" + memory + ", offload: disk, offload_buffer: 1MiB}"}));
    CHECK(read_file(folder / "off/last/model.safetensors") == read_file(folder / "plain/last/model.safetensors"));
    CHECK(fs::is_empty(folder / "disk"));
    CHECK(read_json(folder / "off/summary.json").at("memory").at("saved").get<double>() <
          read_json(folder / "plain/summary.json").at("memory").at("saved").get<double>());
  }
  // A run that went on has them too.
  run(folder, train("half", {"train.steps=1", "memory={offload: disk, offload_buffer: 1MiB}"}));
  run(folder, {"train", "--resume", "half", "train.steps=3", "memory.recompute=[blocks.1]"});
  CHECK(read_file(folder / "half/last/model.safetensors") == read_file(folder / "plain/last/model.safetensors"));
}

TEST_CASE("offload: a full disk and a used-up budget keep tensors in memory, and a killed run leaves nothing") {
  const TemporaryFolder folder(wide_vit);
  fs::create_directory(folder / "disk");
  run(folder, train("plain", {}));
  const CommandResult budget =
      run(folder, train("budget", {"memory={offload: disk, offload_budget: 1MiB, offload_buffer: 1MiB}"}));
  check_says(budget.error, "memory.offload: the budget is used up");
  const CommandResult full = run_command(folder, train("full", {"memory={offload: disk, offload_buffer: 1MiB}"}),
                                         {.file = std::int64_t{2} << 20});
  CHECK(full.code == 0);
  check_says(full.error, "memory.offload: the disk of");
  for (const char* const name : {"budget", "full"})
    CHECK(read_file(folder / name / "last/model.safetensors") == read_file(folder / "plain/last/model.safetensors"));

  CommandRun killed(folder, train("killed", {"train.steps=0", "train.epochs=1000", "memory={offload: disk}"}));
  while (killed.running() && !fs::exists(folder / "killed/metrics.jsonl")) ::usleep(10000);
  killed.signal(SIGKILL);
  killed.wait();
  CHECK(fs::is_empty(folder / "disk"));
}

TEST_CASE("offload: a plan counts what lies on the disk, and auto keeps its budget with one") {
  const TemporaryFolder folder(wide_vit);
  fs::create_directory(folder / "disk");
  const auto peak = [&](const std::string& memory) {
    return run(folder, {"plan", "-c", "c.yaml", "memory={" + memory + "}", "--json", "-"})
        .json()
        .at("memory")
        .at("peak");
  };
  const auto exact = peak("policy: exact").get<std::int64_t>(),
             all = peak("policy: exact, offload: disk, offload_buffer: 64KiB").get<std::int64_t>();
  CHECK(all < exact);
  const std::string memory =
      fmt::format("policy: auto, codes: false, budget: {}B, offload: disk, offload_buffer: 64KiB", (all + exact) / 2);
  CHECK(peak(memory).get<std::int64_t>() <= (all + exact) / 2);
  run(folder, train("off", {"memory={" + memory + "}"}));
  run(folder, train("plain", {}));
  CHECK(read_file(folder / "off/last/model.safetensors") == read_file(folder / "plain/last/model.safetensors"));
}

TEST_CASE("offload: the staging memory follows what a step saves, and a budget that holds without it is kept") {
  const TemporaryFolder folder(wide_vit);
  fs::create_directory(folder / "disk");
  const auto plan = [&](const std::string& memory) {
    return run(folder, {"plan", "-c", "c.yaml", "memory={" + memory + "}", "--json", "-"}).json();
  };
  const nlohmann::json exact = plan("policy: exact"), ring = plan("policy: exact, offload: disk");
  const auto peak = [](const nlohmann::json& json) { return json.at("memory").at("peak").get<std::int64_t>(); };
  CHECK(peak(ring) < peak(exact));
  const nlohmann::json within = plan(fmt::format("policy: auto, budget: {}B, offload: disk, offload_buffer: 256MiB",
                                                 exact.at("peak_in_training").get<std::int64_t>()));
  CHECK(peak(within) == peak(exact));
}

TEST_CASE("offload: settings without effect and folders that are not there are refused") {
  const TemporaryFolder folder(wide_vit);
  check_refusals(folder, train("r", {}),
                 {{"memory={offload: nowhere}", "memory.offload", "nowhere"},
                  {"memory={offload_budget: 1GiB}", "memory.offload_budget"},
                  {"memory={offload_buffer: 1MiB}", "memory.offload_buffer"},
                  {"memory={offload: ., offload_budget: much}", "memory.offload_budget", "much"}});
}

}  // namespace lacuna::test
