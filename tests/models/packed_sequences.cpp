// Samples of several sequences.
#include "core/error.h"
#include "models/registry.h"
#include "models/sequences.h"
#include "models/task.h"
#include "tests/refusal.h"

#include <doctest/doctest.h>

#include <vector>

namespace lacuna {
namespace {

Tensor row_of_numbers(const std::vector<std::int64_t>& values) {
  return Tensor::from(std::span<const std::int64_t>(values), {std::ssize(values)});
}

/// Four sequences, each a sample, or two in each of two samples.
Batch four_sequences(bool are_packed) {
  constexpr std::int64_t rows = 24;
  std::vector<std::int64_t> tokens, labels;
  for (std::int64_t i = 0; i < rows; ++i) {
    tokens.push_back(1 + i * 7 % 50);
    labels.push_back(i % 3 == 0 ? -100 : tokens.back());
  }
  Batch batch;
  batch.samples = are_packed ? 2 : 4;
  batch.set_packed("tokens", row_of_numbers(tokens));
  batch.set_packed("labels", row_of_numbers(labels));
  batch.set("offsets", row_of_numbers(are_packed ? std::vector<std::int64_t>{0, 9, rows}
                                                 : std::vector<std::int64_t>{0, 7, 9, 20, rows}));
  if (are_packed) {
    batch.set_packed("sequence_lengths", row_of_numbers({7, 2, 11, 4}), "sequence_offsets");
    batch.set("sequence_offsets", row_of_numbers({0, 2, 4}));
  }
  return batch;
}

TEST_CASE("sequences: samples of several ones have the loss of the same ones as samples") {
  const std::unique_ptr<Model> model = build_model("decoder",
                                                   {{"vocab_size", std::int64_t{64}},
                                                    {"hidden_size", std::int64_t{16}},
                                                    {"intermediate_size", std::int64_t{24}},
                                                    {"num_hidden_layers", std::int64_t{2}},
                                                    {"num_attention_heads", std::int64_t{2}},
                                                    {"max_position_embeddings", std::int64_t{16}}},
                                                   {.seed = 3});
  const std::unique_ptr<Task> task = make_task("causal_lm", {}, *model);
  const auto loss = [&](Batch batch) {
    return task->run(*model, std::move(batch), TaskMode::train).loss.tensor().item();
  };
  const Batch packed = four_sequences(true), single = four_sequences(false);
  CHECK(loss(packed) == loss(single));
  CHECK(task->weight(packed, TaskMode::train) == task->weight(single, TaskMode::train));
  CHECK(loss(packed.part(1, 2)) == loss(single.part(2, 4)));
  Batch wrong = four_sequences(true);
  wrong.set("sequence_lengths", row_of_numbers({7, 2, 11, 5}));
  test::check_says(test::refusal_of([&] { loss(wrong); }), "its offsets end at 25, and it has 24 tokens");
}

}  // namespace
}  // namespace lacuna
