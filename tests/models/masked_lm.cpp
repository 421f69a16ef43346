// Masked language modelling: which tokens are hidden, and by what.
#include "core/error.h"
#include "data/vocabulary.h"
#include "models/task.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <vector>

namespace lacuna {
namespace {

using Numbers = std::vector<std::int64_t>;

constexpr std::int64_t outputs = 60, mask = 9, separator = 33, begin = 40, unknown = 2, padding = 11;

Vocabulary vocabulary() { return {.size = 50, .mask = mask, .special = {begin, separator, unknown, padding, mask}}; }

// Keeps the tokens that it is given.
class Watcher final : public Model {
 public:
  Watcher() : Model({}, {.inputs = {}, .num_classes = outputs, .heads = {}}) {}
  Outputs forward(Inputs inputs) override {
    seen = inputs.at("tokens").tensor().to_vector();
    constexpr std::int64_t width = 4;
    Outputs made;
    made.set("hidden", Variable(Tensor::zeros({inputs.at("rows").tensor().count(), width}, DType::f32, Device::cpu)));
    made.set("decoder_weight", Variable(Tensor::zeros({outputs, width}, DType::f32, Device::cpu)));
    made.set("decoder_bias", Variable(Tensor::zeros({outputs}, DType::f32, Device::cpu)));
    return made;
  }
  std::vector<double> seen;
};

Batch batch_of(const Numbers& tokens) {
  const auto tensor = [](const Numbers& values) {
    return Tensor::from(std::span<const std::int64_t>(values), {std::ssize(values)});
  };
  Batch batch;
  batch.samples = 1;
  batch.set_packed("tokens", tensor(tokens));
  batch.set("offsets", tensor({0, std::ssize(tokens)}));
  batch.set("draw", tensor({7}));
  return batch;
}

std::unique_ptr<Task> masked_lm(const Model& model, const Vocabulary& seen, OptionValues settings = {}) {
  settings.try_emplace("probability", 0.999999);
  std::unique_ptr<Task> task = make_task("masked_lm", settings, model);
  task->see({.name = {}, .vocabulary = seen});
  return task;
}

// A pair, as the tokenizer of this vocabulary makes it, padded and with words that it does not know.
Numbers pair_of(std::int64_t words) {
  Numbers tokens{begin};
  for (std::int64_t i = 0; i < words; ++i) tokens.push_back(i % 7 == 3 ? unknown : 20);
  tokens.push_back(separator);
  for (std::int64_t i = 0; i < words; ++i) tokens.push_back(21);
  for (const std::int64_t token : {separator, padding, padding}) tokens.push_back(token);
  return tokens;
}

TEST_CASE("masked_lm: special tokens of the data set's vocabulary stay, wherever they stand") {
  Watcher model;
  const auto task = masked_lm(model, vocabulary());
  const Numbers tokens = pair_of(400);
  const TaskResult result = task->run(model, batch_of(tokens), TaskMode::train);
  std::map<std::int64_t, std::int64_t> found;  // by what stands for a word
  std::int64_t words = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto now = static_cast<std::int64_t>(model.seen[i]);
    if (tokens[i] != 20 && tokens[i] != 21) {
      CHECK(now == tokens[i]);
      continue;
    }
    ++words;
    ++found[now];
  }
  CHECK(result.sums.front().to_vector()[1] == static_cast<double>(words));
  CHECK(static_cast<double>(found[mask]) / static_cast<double>(words) == doctest::Approx(0.8).epsilon(0.05));
  const std::int64_t stay = found[20] + found[21];
  CHECK(static_cast<double>(stay) / static_cast<double>(words) == doctest::Approx(0.1).epsilon(0.4));
  CHECK(found.size() > 30);           // random tokens are any of the vocabulary
  CHECK(found.rbegin()->first < 50);  // of the tokenizer's, which is smaller than the model's
}

TEST_CASE("masked_lm: the setting names the mask where the vocabulary has none; one of them must") {
  Watcher model;
  Vocabulary without = vocabulary();
  without.mask = -1;
  const Numbers tokens = pair_of(20);
  const auto task = masked_lm(model, without, {{"mask_id", 48.0}});
  task->run(model, batch_of(tokens), TaskMode::train);
  CHECK(std::ranges::count(model.seen, 48.0) > 10);
  CHECK_THROWS_WITH_AS(masked_lm(model, without), doctest::Contains("task.mask_id"), Error);
  CHECK_THROWS_WITH_AS(masked_lm(model, without, {{"mask_id", 60.0}}), doctest::Contains("60"), Error);
  const auto blind = make_task("masked_lm", {{"mask_id", 48.0}}, model);
  CHECK_THROWS_WITH_AS(blind->run(model, batch_of(tokens), TaskMode::train), doctest::Contains("Task::see"), Error);
}

}  // namespace
}  // namespace lacuna
