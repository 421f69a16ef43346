// Captured steps on padded texts: one for each padded length, with the bits of others, on the stand-in.
#include "autograd/policy.h"
#include "core/allocator.h"
#include "core/random.h"
#include "models/registry.h"
#include "models/trainer.h"
#include "ops/cuda_libraries.h"
#include "optim/optimizer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace lacuna {
namespace {

using Numbers = std::vector<std::int64_t>;

Tensor tensor(const Numbers& values, const Shape& shape) {
  return Tensor::from(std::span<const std::int64_t>(values), shape);
}

/// Texts of drawn lengths up to `rows`.
Batch batch_of(std::int64_t rows, std::uint32_t number) {
  constexpr std::int64_t samples = 3;
  const RandomStream draws{7, number, 0};
  const auto below = [&](std::int64_t at, double most) {
    return static_cast<std::int64_t>(draws.uniform(static_cast<std::uint64_t>(at)) * most);
  };
  Numbers tokens, types, lengths, labels;
  for (std::int64_t n = 0; n < samples; ++n) {
    lengths.push_back(1 + below(1000 + n, static_cast<double>(rows) - 0.5));
    labels.push_back(below(2000 + n, 2.9));
    for (std::int64_t i = 0; i < rows; ++i) {
      const bool is_token = i < lengths.back();
      tokens.push_back(is_token ? 1 + below(n * rows + i, 100) : 0);
      types.push_back(is_token && i > 2 ? 1 : 0);
    }
  }
  Batch batch;
  batch.samples = samples;
  batch.set("tokens", tensor(tokens, {samples, rows}));
  batch.set("token_types", tensor(types, {samples, rows}));
  batch.set("key_lengths", tensor(lengths, {samples}));
  batch.set("labels", tensor(labels, {samples}));
  return batch;
}

struct Outcome {
  std::vector<double> numbers{};     // loss and norm of each step, and all parameters at the end
  std::vector<std::int64_t> held{};  // bytes of captured steps after each step
};

struct Options {
  std::int64_t parts = 1;
  std::string policy = "exact";
  std::int64_t budget = 0;
  std::int64_t waits_at = 0;  // rows of steps in which the host waits for the device
};

Outcome train(const std::string& family, DType dtype, bool graph, const Numbers& rows_of_steps,
              const Options& options = {}) {
  std::vector<HyperParameter> sizes{
      {"vocab_size", std::int64_t{120}},       {"hidden_size", std::int64_t{24}},
      {"num_hidden_layers", std::int64_t{2}},  {"num_attention_heads", std::int64_t{3}},
      {"intermediate_size", std::int64_t{40}}, {"max_position_embeddings", std::int64_t{18}},
      {"num_classes", std::int64_t{3}},        {"head", "classification"}};
  if (family == "modernbert") {
    sizes.push_back({"pad_token_id", std::int64_t{0}});
    sizes.push_back({"local_attention", std::int64_t{4}});
  }
  const std::unique_ptr<Model> model = build_model(family, sizes, {.device = Device::cuda, .dtype = dtype});
  const std::unique_ptr<Task> task = make_task("classification", {}, *model);
  const auto optimizer = make_optimizer("adamw", {}, *model);
  const auto policy = make_policy(options.policy);
  Trainer trainer({*model, *optimizer, *policy, nullptr}, *task, {.graph = graph, .budget = options.budget});
  Outcome outcome;
  for (std::size_t i = 0; i < rows_of_steps.size(); ++i) {
    const auto number = static_cast<std::uint32_t>(i);
    const StepHooks hooks{.after_forward = [&](const Tape&) {
      if (rows_of_steps[i] == options.waits_at) synchronize(Device::cuda);
    }};
    const StepResult result =
        trainer.step(split_batch(batch_of(rows_of_steps[i], number), options.parts), number, 1e-3, hooks);
    outcome.numbers.push_back(result.loss);
    outcome.numbers.push_back(result.gradient_norm);
    outcome.numbers.push_back(result.totals.loss_sum);
    outcome.held.push_back(trainer.captured_bytes());
  }
  for (const Parameter* parameter : model->parameters())
    for (const double value : parameter->tensor().to_vector()) outcome.numbers.push_back(value);
  return outcome;
}

}  // namespace

TEST_CASE("cuda: steps on padded texts are captured at each padded length, with the bits of others") {
  const Numbers rows{12, 12, 8, 8, 12, 8, 12, 8, 8};
  for (const std::string family : {"bert", "modernbert"})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      CAPTURE(family);
      CAPTURE(name_of(dtype));
      const Outcome replayed = train(family, dtype, true, rows), usual = train(family, dtype, false, rows);
      CHECK(replayed.numbers == usual.numbers);
      CHECK(std::ranges::count(replayed.held, 0) == 4);  // two steps of each length
      CHECK(std::ranges::count(usual.held, 0) == 9);
      const std::int64_t longer_alone = train(family, dtype, true, Numbers(3, 12)).held.back();
      // Tensors of the longer one that live on may leave no gap for a workspace of cuDNN.
      const std::int64_t apart = dtype == DType::f32 ? 0 : library_workspace;
      CHECK(replayed.held.back() <= longer_alone + apart);
    }
  CHECK(allocator(Device::cuda).pool_bytes() == 0);
}

TEST_CASE("cuda: of a length that comes later one step is queued") {
  const Numbers rows{12, 12, 12, 8, 8, 12};
  const Outcome replayed = train("bert", DType::f32, true, rows);
  CHECK(std::ranges::count(replayed.held, 0) == 3);
  CHECK(replayed.held[3] == 0);
  CHECK(replayed.numbers == train("bert", DType::f32, false, rows).numbers);
}

TEST_CASE("cuda: a length whose step is beyond the budget is captured alone or queued, and others are captured on") {
  const Numbers rows{2, 2, 2, 18, 18, 2, 18};
  const Numbers alone(3, 18);
  const auto held = [&](std::int64_t budget) {
    return train("bert", DType::f32, true, alone, {.budget = budget}).held.back();
  };
  std::int64_t small = held(0), least = small + (std::int64_t{1} << 20);  // does not suffice; does
  REQUIRE(held(least) > 0);
  while (least - small > 64) {
    const std::int64_t middle = small + (least - small) / 2;
    (held(middle) > 0 ? least : small) = middle;
  }
  const Outcome usual = train("bert", DType::f32, false, rows);
  for (const bool fits : {true, false}) {
    const Outcome limited = train("bert", DType::f32, true, rows, {.budget = fits ? least : small});
    CHECK(limited.numbers == usual.numbers);
    CHECK(limited.held[2] > 0);
    CHECK((limited.held[4] > 0) == fits);
    CHECK(limited.held[5] > 0);
    CHECK((limited.held[6] > 0) == fits);  // queued, it needs the memory of the other
  }
}

TEST_CASE("cuda: a length that cannot be captured leaves others their graphs where there is room for both") {
  const Numbers rows{2, 2, 2, 18, 18, 2, 18, 18, 2};
  const Outcome free = train("bert", DType::f32, true, rows, {.waits_at = 18}),
                tight = train("bert", DType::f32, true, rows, {.budget = free.held[2] * 3 / 2, .waits_at = 18}),
                usual = train("bert", DType::f32, false, rows);
  CHECK(free.numbers == usual.numbers);
  CHECK(tight.numbers == usual.numbers);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CAPTURE(i);
    CHECK((free.held[i] > 0) == (i == 2 || i >= 5));
    CHECK((tight.held[i] > 0) == (i == 2 || i == 5 || i == 8));
  }
}

TEST_CASE("cuda: captured steps quantize padding as others do") {
  const Numbers rows(5, 12);
  for (const std::string family : {"bert", "modernbert"})
    CHECK(train(family, DType::f32, true, rows, {.policy = "fixed"}).numbers ==
          train(family, DType::f32, false, rows, {.policy = "fixed"}).numbers);
}

TEST_CASE("cuda: padded texts in micro-batches are captured with the bits of others") {
  const Numbers rows(5, 12);
  CHECK(train("bert", DType::f32, true, rows, {.parts = 3}).numbers ==
        train("bert", DType::f32, false, rows, {.parts = 3}).numbers);
}

TEST_CASE("cuda: of more padded lengths than graphs the least recently used is captured anew") {
  Numbers rows;
  for (int turn = 0; turn < 4; ++turn)
    for (std::int64_t length = 18; length > 0; --length) rows.push_back(length);
  const Outcome replayed = train("bert", DType::f32, true, rows);
  CHECK(replayed.held.back() > 0);
  CHECK(replayed.numbers == train("bert", DType::f32, false, rows).numbers);
}

}  // namespace lacuna
