// The effect of freezing, layer by layer.
#include "apps/train/freeze_table.h"
#include "apps/config/resolve.h"
#include "apps/train/measure.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace lacuna::apps {
namespace {

Experiment vit(const std::string& more) {
  return resolve(
      parse_configuration("model: {name: vit, image_size: 8, patch_size: 4, embed_dim: 8, depth: 4, num_heads: 2}\n"
                          "data: {name: shapes}\n"
                          "train: {batch_size: 4, threads: 1}\n" +
                              more,
                          "test"));
}

std::vector<FreezeRow> table_of(const Experiment& experiment) {
  Setup setup(experiment, Device::meta);
  return freeze_table(setup, experiment);
}

const FreezeRow& row(const std::vector<FreezeRow>& rows, const std::string& layers) {
  const auto found = std::ranges::find(rows, layers, &FreezeRow::layers);
  REQUIRE_MESSAGE(found != rows.end(), layers, "\n", to_text(rows));
  return *found;
}

}  // namespace

TEST_CASE("freeze table: its parts add up to the model and to what a step saves") {
  for (const char* const more : {"freeze: {train: [\"@head\"]}\n", "freeze: {train: [\"@last2\", \"@head\"]}\n",
                                 "freeze: {train: [\"@bias\"]}\n", "adapter: {name: lora, rank: 2, dropout: 0.1}\n",
                                 "adapter: {name: lora_fa, rank: 2}\nmemory: {policy: fixed}\n"}) {
    INFO(more);
    const Experiment configuration = vit(more);
    const std::vector<FreezeRow> rows = table_of(configuration);
    const Measurement measured = measure(configuration, Device::meta);
    std::int64_t trained = 0, frozen = 0, saved = 0;
    for (const FreezeRow& one : rows) {
      trained += one.trained;
      frozen += one.frozen;
      saved += one.saved;
    }
    CHECK(trained == measured.trainable);
    CHECK(trained + frozen == measured.parameters);
    CHECK(saved == measured.memory[static_cast<std::size_t>(Purpose::saved)]);
  }
  CHECK(table_of(vit("")).empty());
}

TEST_CASE("freeze table: blocks that are trained alike are one row, and frozen layers without inputs are named") {
  const std::vector<FreezeRow> rows = table_of(vit("freeze: {train: [\"@last2\", \"@head\"]}\n"));
  const FreezeRow &frozen = row(rows, "blocks.0-1"), &trained = row(rows, "blocks.2-3");
  CHECK(frozen.trained == 0);
  CHECK(frozen.saved < trained.saved);
  CHECK(frozen.inputs > 0);
  for (const char* const layer : {"attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2"})
    CHECK(std::ranges::find(frozen.without_input, layer) != frozen.without_input.end());
  CHECK(trained.frozen == 0);
  CHECK(trained.without_input.empty());
  CHECK(row(rows, "head").trained > 0);
  // With LoRA-FA no linear layer needs its input; with LoRA each still does, for A.
  const std::vector<FreezeRow> fa = table_of(vit("adapter: {name: lora_fa, rank: 2}\n")),
                               lora = table_of(vit("adapter: {name: lora, rank: 2}\n"));
  CHECK(row(fa, "blocks.1-3").inputs > row(lora, "blocks.1-3").inputs);
}

}  // namespace lacuna::apps
