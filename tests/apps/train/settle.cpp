// Sizes that a configuration leaves to the machine.
#include "apps/train/settle.h"

#include "apps/train/fit.h"
#include "apps/train/planning.h"
#include "tests/apps/train/train_run.h"

namespace lacuna::test {

TEST_CASE("settle: the largest batch within a budget, which the next one exceeds") {
  const auto with_batch = [](const std::string& batch, const std::vector<std::string>& more) {
    std::vector<std::string> overrides{"train.batch_size=" + batch, "data.train_size=4000"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return apps::settled(apps::parse_configuration(std::string(vit), "c.yaml", overrides));
  };
  const std::int64_t budget = apps::highest_need(apps::measure(with_batch("100", {}), Device::meta));
  const std::string within = "memory={policy: auto, budget: " + std::to_string(budget) + "B}";
  const auto planned = [&](std::int64_t batch) {  // without codes
    const apps::Experiment experiment = with_batch(std::to_string(batch), {within});
    return apps::bytes_without_codes(*apps::setup_to_plan(experiment), experiment);
  };
  const std::int64_t chosen = with_batch("auto", {within}).train.batch_size;
  CHECK(chosen > 100);     // which fits without a plan
  CHECK(chosen % 2 == 0);  // train.accumulate
  CHECK(planned(chosen) <= budget);
  CHECK(planned(chosen + 2) > budget);
  CHECK(with_batch("auto", {}).train.batch_size == 4000 / 8);
  CHECK(with_batch("auto", {"data.mixup=0.2"}).train.batch_size == 4000 / 8);
  CHECK(with_batch("auto", {"data.train_size=40000"}).train.batch_size == 1024);
}

TEST_CASE("settle: a batch within a budget is one of the longest texts") {
  const auto with_batch = [](const std::string& batch, const std::string& memory) {
    return apps::settled(apps::parse_configuration(
        "model: {name: bert, vocab_size: 3000, hidden_size: 32, num_hidden_layers: 1, num_attention_heads: 2, "
        "intermediate_size: 64, max_position_embeddings: 64}\n"
        "data: {name: random_tokens, length: [8, 8, 8, 64], vocabulary: 3000, train_size: 4000}\n"
        "task: {name: classification}\ntrain: {threads: 1}\nmemory: " +
            memory,
        "c.yaml", std::vector<std::string>{"train.batch_size=" + batch}));
  };
  const std::int64_t budget = apps::highest_need(apps::measure(with_batch("40", "{budget: 1GiB}"), Device::meta));
  const std::string within = "{policy: auto, budget: " + std::to_string(budget) + "B}";
  const auto planned = [&](const std::string& batch) {  // without codes
    const apps::Experiment experiment = with_batch(batch, within);
    return apps::bytes_without_codes(*apps::setup_to_plan(experiment), experiment);
  };
  const std::int64_t chosen = with_batch("auto", within).train.batch_size;
  CHECK(chosen >= 40);
  CHECK(planned(std::to_string(chosen)) <= budget);
  CHECK(planned(std::to_string(chosen + 1)) > budget);
}

TEST_CASE("settle: the largest batch, a plan of auto, and what plan says fits leave the same room on a card") {
  const TemporaryFolder folder(
      "model: {name: bert, hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 1, intermediate_size: 8,\n"
      "        vocab_size: 40, max_position_embeddings: 64}\n"
      "data: {name: random_tokens, length: [64], vocabulary: 40, train_size: 4000}\n"
      "train: {device: cuda}\n");
  const auto plan = [&](const std::string& policy, std::int64_t batch) {  // 0: auto
    return test::run(folder, {"plan", "-c", "c.yaml", "memory=" + policy, "--card", "1826MiB", "--json", "-",
                              "train.batch_size=" + (batch == 0 ? "auto" : std::to_string(batch))})
        .json();
  };
  const auto largest = plan("{policy: exact}", 0).at("batch_size").get<std::int64_t>();
  CHECK(plan("{policy: exact}", largest).at("fits") == true);
  CHECK(plan("{policy: exact}", largest + 1).at("fits") == false);
  const nlohmann::json within = plan("{policy: auto, codes: false}", 0);  // one that did not fit would be refused
  CHECK(within.at("fits") == true);
  CHECK(within.at("batch_size").get<std::int64_t>() > largest / 2);
}

TEST_CASE("settle: a run records the batch that it has, and an evaluation needs none") {
  const TemporaryFolder folder(vit);
  test::run(folder, train({"train.batch_size=auto", "data.train_size=80", "train.epochs=1"}));
  CHECK(read_file(folder / "runs/c/config.yaml").find("batch_size: 10\n") != std::string::npos);
  test::run(folder, {"eval", "-c", "c.yaml", "model.from=runs/c/last", "train.batch_size=auto"});
}

TEST_CASE("plan: says whether training fits into the machine, and what does") {
  const TemporaryFolder folder(vit);
  CHECK(test::run(folder, {"plan", "-c", "c.yaml", "--json", "-"}).json().at("fits") == true);
  const std::vector<std::string> large{"plan", "model=vit_large_patch16_224", "train.batch_size=512"};
  const CommandResult result = test::run(folder, large);
  check_says(result.out, "does not fit");
  check_says(result.out, "train.batch_size=");
}

TEST_CASE("plan: bf16 is advised where it fits, with the bytes that it takes") {
  const TemporaryFolder folder(vit);
  const auto plan = [&](const std::string& precision, const std::string& card, const std::string& json) {
    return test::run(folder, {"plan", "-c", "c.yaml", "train.device=cuda", "train.batch_size=500",
                              "train.precision=" + precision, "--card", card, "--json", json});
  };
  const auto need = [&](const std::string& precision) {
    return plan(precision, "8GiB", "-").json().at("peak_in_training").get<std::int64_t>();
  };
  const auto advised = [&](std::int64_t room) {
    const std::string card = std::to_string((std::int64_t{1792} << 20) + room) + "B";
    return plan("f32", card, "f32.json").out.find("train.precision=bf16: " + format_bytes(need("bf16"))) !=
           std::string::npos;
  };
  REQUIRE(need("bf16") < need("f32"));
  CHECK(advised(need("f32") - 1));
  CHECK(advised(need("bf16")));
  CHECK_FALSE(advised(need("bf16") - 1));
  CHECK_FALSE(advised(need("f32")));
}

}  // namespace lacuna::test
