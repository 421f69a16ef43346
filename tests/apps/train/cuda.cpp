// Training on a GPU, which the stand-in is here: it computes on the CPU what kernels for CUDA say.
#include "apps/train/ranks.h"
#include "core/error.h"
#include "tests/apps/train/train_run.h"

#include <fmt/core.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

namespace lacuna::test {
namespace {

/// While it lives, commands find the stand-in's two devices.
struct StandIn {
  StandIn() { ::setenv("LACUNA_CUDA_LIBRARY", LACUNA_BINARY_DIR "/lib/liblacuna_stand_in.so", 1); }
  ~StandIn() { ::unsetenv("LACUNA_CUDA_LIBRARY"); }
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;
};

constexpr std::string_view swin =
    "model: {name: swin, image_size: 16, patch_size: 2, embed_dim: 8, depths: [2, 1], num_heads: [1, 2], window_size: "
    "4}\n"
    "data: {name: shapes, train_size: 35, val_size: 10}\n"
    "train: {epochs: 3, batch_size: 8, threads: 1}\n"
    "optimizer: {name: adamw, lr: 1e-3}\n";
constexpr std::string_view swin_of_windows_of_12 =
    "model: {name: swin, image_size: 48, patch_size: 2, embed_dim: 16, depths: [2, 1], num_heads: [2, 4],\n"
    "        window_size: 12}\n"
    "data: {name: shapes, train_size: 4, val_size: 2}\n"
    "train: {epochs: 1, batch_size: 2, threads: 1}\n"
    "optimizer: {name: adamw, lr: 1e-3}\n";
constexpr std::string_view vit_of_heads_of_8 =
    "model: {name: vit, image_size: 128, patch_size: 4, embed_dim: 16, depth: 1, num_heads: 2}\n"
    "data: {name: shapes, train_size: 4, val_size: 2}\n"
    "train: {epochs: 1, batch_size: 2, threads: 1}\n"
    "optimizer: {name: adamw, lr: 1e-3}\n";
constexpr std::string_view bert =
    "model: {name: bert, hidden_size: 16, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 32,\n"
    "        vocab_size: 40, max_position_embeddings: 12}\n"
    "data: {name: random_tokens, length: [5, 9, 12], vocabulary: 40, train_size: 35, val_size: 10}\n"
    "train: {epochs: 3, batch_size: 8, threads: 1}\n"
    "optimizer: {name: adamw, lr: 1e-3}\n";

std::vector<double> losses(const fs::path& run) {
  std::vector<double> values;
  for (const nlohmann::json& line : noted(run))
    for (const char* const key : {"loss", "val_loss"})
      if (line.contains(key)) values.push_back(line.at(key));
  return values;
}

/// The largest difference, relative to the loss.
double difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  REQUIRE(!a.empty());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]) / std::abs(b[i]));
  return most;
}

}  // namespace

TEST_CASE("ranks: each takes a GPU of its own, whether all are shown to it or one") {
  const auto gpu = [](const std::vector<std::vector<std::string>>& seen, int rank) {
    return apps::gpu_of_rank(seen, rank, "node1");
  };
  const std::vector<std::string> all{"a", "b", "c"};
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(gpu({all, all, all}, rank) == rank);
    CHECK(gpu({{"a"}, {"b"}, {"c"}}, rank) == 0);  // srun --gpus-per-task=1, a part under MIG
  }
  CHECK(gpu({{"a", "b"}, {"a", "b"}, {"c", "d"}, {"c", "d"}}, 3) == 1);  // two containers of one host name
  CHECK_THROWS_AS(gpu({{"a"}, {"a"}}, 1), Error);
  CHECK_THROWS_AS(gpu({all, all, all, all}, 3), Error);
}

TEST_CASE("cuda: a device without memory for tensors is refused before training, with what is missing") {
  const StandIn stand_in;
  ::setenv("LACUNA_STAND_IN_BYTES", "0", 1);
  const TemporaryFolder folder(vit);
  const CommandResult result = run_command(folder, train({"output.dir=a", "train.device=cuda"}));
  ::unsetenv("LACUNA_STAND_IN_BYTES");
  CHECK(result.code == 2);
}

TEST_CASE("train on cuda: losses are the CPU's up to rounding, and `exact` has the bits of `keep`") {
  const StandIn stand_in;
  for (const std::string_view configuration : {vit, resnet, swin, bert}) {
    INFO(configuration);
    const TemporaryFolder folder(configuration);
    run(folder, train({"output.dir=cpu", "train.device=cpu", "train.epochs=1"}));
    run(folder, train({"output.dir=exact", "train.device=cuda", "train.epochs=1"}));
    run(folder, train({"output.dir=keep", "train.device=cuda", "train.epochs=1", "memory.policy=keep"}));
    run(folder, train({"output.dir=host", "train.device=cuda", "train.epochs=1", "memory.offload=host",
                       "memory.offload_buffer=20KiB"}));
    // Four steps in f32, two of them replayed, each of which may round another way.
    CHECK(difference(losses(folder / "exact"), losses(folder / "cpu")) < 1e-4);
    CHECK(noted(folder / "exact") == noted(folder / "keep"));
    CHECK(noted(folder / "exact") == noted(folder / "host"));
    check_same_checkpoint(folder, "exact", "keep");
  }
}

TEST_CASE("cuda: a plan's bytes are those of a step there") {
  const StandIn stand_in;
  struct Case {
    std::string_view configuration;
    std::string memory;
    std::string precision = "f32";
  };
  std::vector<Case> cases{{vit_of_heads_of_8, "{policy: exact}", "bf16"}};  // cuDNN's attention, which has its own rule
  for (const char* const memory : {"{policy: exact}", "{policy: fixed, bits: 4}"})  // with dropout, over packed texts
    for (const char* const precision : {"bf16", "f32"}) cases.push_back({bert, memory, precision});
  for (const char* const memory : {"{policy: keep}", "{policy: exact}"})
    for (const char* const precision : {"bf16", "f32"}) cases.push_back({swin_of_windows_of_12, memory, precision});
  for (const std::string_view configuration : {vit, resnet, swin})
    for (const char* const memory :
         {"{policy: exact}", "{policy: mesa}", "{policy: exact, offload: host, offload_buffer: 20KiB}"})
      cases.push_back({configuration, memory});
  for (const Case& c : cases) {
    INFO(c.configuration, c.memory);
    const TemporaryFolder folder(c.configuration);
    const std::vector<std::string> settings{"-c",     "c.yaml", "train.device=cuda",  "train.graph=false",
                                            "--json", "-",      "memory=" + c.memory, "train.precision=" + c.precision};
    const auto memory = [&](std::vector<std::string> command) {
      command.insert(command.end(), settings.begin(), settings.end());
      return run(folder, std::move(command)).json().at("memory");
    };
    const nlohmann::json planned = memory({"plan"}), taken = memory({"bench", "--steps", "1"});
    for (const char* const key : {"peak", "saved", "workspace"}) CHECK(planned.at(key) == taken.at(key));
  }
}

TEST_CASE("cuda: a plan counts what a captured step holds longer than others: its inputs, and the next step's") {
  const StandIn stand_in;
  struct Case {
    std::string_view configuration;
    std::int64_t image_size;
  };
  for (const Case& c : {Case{vit, 8}, {resnet, 8}, {swin, 16}}) {
    INFO(c.configuration);
    const TemporaryFolder folder(c.configuration);
    const auto planned = [&](const std::string& graph) {
      return run(folder, {"plan", "-c", "c.yaml", "train.device=cuda", "memory.policy=exact", graph, "--json", "-"})
          .json();
    };
    const nlohmann::json captured = planned("train.graph=true"), not_captured = planned("train.graph=false");
    // u8 pixels, their scale f32 [batch, 6] and labels i64 [batch], of a batch of 8
    const std::int64_t inputs = 8 * (c.image_size * c.image_size * 3 + 6 * 4 + 8);
    CHECK(captured.at("memory").at("peak").get<std::int64_t>() ==
          not_captured.at("memory").at("peak").get<std::int64_t>() + 2 * inputs);
    CHECK(captured.at("peak_in_evaluation") == not_captured.at("peak_in_evaluation"));
  }
}

TEST_CASE("cuda: a run within a budget is captured, unless what it holds goes beyond it, with the same bits") {
  const StandIn stand_in;
  const TemporaryFolder folder(resnet);
  const nlohmann::json exact = run(folder, {"plan", "-c", "c.yaml", "train.device=cuda", "train.graph=false",
                                            "memory.policy=exact", "--json", "-"})
                                   .json()
                                   .at("memory");
  for (const std::string of : {"saved", "peak"}) {
    const double budget = exact.at(of).get<double>() * (of == "saved" ? 0.7 : 1.0002);
    for (const std::string graph : {"true", "false"})
      run(folder,
          train({"output.dir=" + of + graph, "train.device=cuda", "train.epochs=2", "train.graph=" + graph,
                 "memory.policy=auto", "memory.budget_of=" + of, fmt::format("memory.budget={:.0f}B", budget)}));
    CHECK(noted(folder / (of + "true")) == noted(folder / (of + "false")));
    check_same_checkpoint(folder, of + "true", of + "false");
    CHECK(read_json(folder / (of + "true/summary.json"))["memory"][of].get<double>() <= budget);
  }
}

TEST_CASE(
    "cuda: auto without a budget holds what the card has room for, in captured steps too, with the bits of exact") {
  const StandIn stand_in;
  const TemporaryFolder folder(vit);
  for (const std::string policy : {"exact", "auto"})
    run(folder, train({"output.dir=" + policy, "train.device=cuda", "train.epochs=2", "memory.policy=" + policy}));
  CHECK(noted(folder / "auto") == noted(folder / "exact"));
  check_same_checkpoint(folder, "auto", "exact");
  const nlohmann::json exact = read_json(folder / "exact/summary.json"), held = read_json(folder / "auto/summary.json");
  CHECK(held["memory"]["saved"] > exact["memory"]["saved"]);
  for (const auto& [key, choice] : read_json(folder / "auto/plan.json").at("tensors").items()) {
    CAPTURE(key);
    CHECK(choice == "keep");
  }
}

TEST_CASE("cuda: auto without a budget fills a card that holds a part of what `keep` does, or less than `exact`") {
  const StandIn stand_in;
  const TemporaryFolder folder(
      "model: {name: vit, image_size: 16, patch_size: 2, embed_dim: 32, depth: 3, num_heads: 2}\n"
      "data: {name: shapes, train_size: 36, val_size: 8}\n"
      "train: {epochs: 1, batch_size: 12, threads: 1, device: cuda}\n"
      "optimizer: {name: adamw, lr: 1e-3}\n");
  const auto planned = [&](const std::string& policy) {
    return run(folder, {"plan", "-c", "c.yaml", "memory.policy=" + policy, "--json", "-"}).json();
  };
  const std::int64_t exact = planned("exact").at("memory").at("peak"), keep = planned("keep").at("memory").at("peak");
  constexpr std::int64_t whole = std::int64_t{2} << 20;  // the stand-in has memory in pieces of 2 MiB
  const std::int64_t below_keep = (keep - 1) / whole * whole, below_exact = (exact - 1) / whole * whole;
  REQUIRE(exact < below_keep);
  run(folder, train({"output.dir=exact", "memory.policy=exact"}));
  const std::int64_t saved = read_json(folder / "exact/summary.json").at("memory").at("saved");
  for (const std::int64_t room : {below_keep, below_exact}) {
    CAPTURE(room);
    const std::string name = std::to_string(room);
    ::setenv("LACUNA_STAND_IN_BYTES", std::to_string(room + (std::int64_t{1} << 30)).c_str(), 1);  // a card's reserve
    const nlohmann::json plan = planned("auto");
    run(folder, train({"output.dir=" + name, "memory.policy=auto"}));
    ::unsetenv("LACUNA_STAND_IN_BYTES");
    CHECK(plan.at("memory").at("peak").get<std::int64_t>() <= room);
    const std::int64_t held = read_json(folder / (name + "/summary.json")).at("memory").at("saved");
    CHECK((held > saved) == (room > exact));
    CHECK((noted(folder / name) == noted(folder / "exact")) == (room > exact));
  }
}

TEST_CASE("cuda: runs go on on the CPU and back, and eval and predict read both") {
  const StandIn stand_in;
  const TemporaryFolder folder(vit);
  for (const std::string device : {"cpu", "cuda"}) {
    const std::string other = device == "cpu" ? "cuda" : "cpu";
    const std::string rate = "schedule={name: constant}";  // whatever the number of epochs
    run(folder, train({"output.dir=" + device, "train.epochs=2", "train.device=" + device, rate}));
    run(folder, train({"output.dir=half_" + device, "train.epochs=1", "train.device=" + device, rate}));
    run(folder, {"train", "--resume", "half_" + device, "train.epochs=2", "train.device=" + other});
    CHECK(difference(losses(folder / ("half_" + device)), losses(folder / device)) < 1e-4);
    const nlohmann::json here = run(folder, {"eval", device, "--json", "-", "train.device=" + device}).json(),
                         there = run(folder, {"eval", device, "--json", "-", "train.device=" + other}).json();
    CHECK(here["device"] == device);
    CHECK(there["device"] == other);
    CHECK(there["val_loss"].get<double>() == doctest::Approx(here["val_loss"].get<double>()).epsilon(1e-5));
  }
}

TEST_CASE("cuda: f16, bf16 and tf32 train, and what needs the CPU is refused with its key") {
  const StandIn stand_in;
  const TemporaryFolder folder(vit);
  run(folder, train({"output.dir=f32", "train.device=cuda", "train.epochs=1"}));
  for (const std::string precision : {"bf16", "f16", "tf32"}) {
    run(folder,
        train({"output.dir=" + precision, "train.device=cuda", "train.epochs=1", "train.precision=" + precision}));
    CHECK(difference(losses(folder / precision), losses(folder / "f32")) < 0.05);
  }
  const auto refused = [&](const std::string& key, std::vector<std::string> settings) {
    settings.insert(settings.end(), {"output.dir=refused"});
    check_refused(folder, train(std::move(settings)), {key});
    CHECK(!fs::exists(folder / "refused"));
  };
  refused("memory.offload", {"train.device=cuda", "memory.offload=saved"});
  refused("memory.offload", {"train.device=cpu", "memory.offload=host"});
  refused("memory.budget_of", {"train.device=cuda", "memory={policy: auto, budget: 1GiB, budget_of: process}"});
  refused("train.device", {"train.device=cuda:2"});
  refused("train.precision", {"train.device=cpu", "train.precision=f16"});
  refused("train.precision", {"train.device=cpu", "train.precision=tf32"});
}

}  // namespace lacuna::test
