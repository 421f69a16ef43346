// Training on a GPU, which the stand-in is here: it computes on the CPU what kernels for CUDA say.
#include "tests/apps/train/train_run.h"

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

TEST_CASE("train on cuda: losses are the CPU's up to rounding, and `exact` has the bits of `keep`") {
  const StandIn stand_in;
  for (const std::string_view configuration : {vit, resnet, swin, bert}) {
    INFO(configuration);
    const TemporaryFolder folder;
    write_file(folder / "c.yaml", configuration);
    run(folder, train({"output.dir=cpu", "train.device=cpu"}));
    run(folder, train({"output.dir=exact", "train.device=cuda"}));
    run(folder, train({"output.dir=keep", "train.device=cuda", "memory.policy=keep"}));
    // Twelve steps in f32, each of which may round another way.
    CHECK(difference(losses(folder / "exact"), losses(folder / "cpu")) < 1e-4);
    CHECK(noted(folder / "exact") == noted(folder / "keep"));
    check_same_checkpoint(folder, "exact", "keep");
  }
}

}  // namespace lacuna::test
