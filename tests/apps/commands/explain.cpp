// `lacuna explain`: the saved tensors, beside what `plan` says of the same step.
#include "core/ledger.h"
#include "tests/apps/train/train_run.h"

namespace lacuna::test {

TEST_CASE("explain: tells the bytes that plan tells, also where bits are divided by a measurement") {
  const TemporaryFolder folder(
      "model: {name: vit, image_size: 32, patch_size: 4, embed_dim: 64, depth: 3, num_heads: 4}\n"
      "data: {name: shapes}\ntrain: {batch_size: 32, threads: 1}\n");
  for (const char* const memory :
       {"{policy: adaptive, bits: 2.5}", "{policy: adaptive, bits: 4}",
        "{policy: adaptive, bits: 1.5, measure_every: 1}",
        "{policy: adaptive, bits: 2.5, measure_every: 1, by_draws: true}", "{policy: fixed}"}) {
    const std::string how = fmt::format("memory={}", memory);
    const CommandResult explained = run_command(folder, {"explain", "-c", "c.yaml", how, "--json", "-"});
    const CommandResult planned = run_command(folder, {"plan", "-c", "c.yaml", how, "--json", "-"});
    INFO(explained.error, planned.error);
    REQUIRE(explained.code == 0);
    CHECK(explained.json().at("saved") == planned.json().at("memory").at("saved"));
  }
}

TEST_CASE("explain: a step in parts is told by the whole batch and its parts, as plan does") {
  const TemporaryFolder folder(
      "model: {name: vit, image_size: 32, patch_size: 4, embed_dim: 64, depth: 2, num_heads: 4}\n"
      "data: {name: shapes}\ntrain: {batch_size: 12, accumulate: 2, threads: 1}\n");
  const nlohmann::json json = run_command(folder, {"explain", "-c", "c.yaml", "--json", "-"}).json();
  CHECK(json.at("batch_size") == 12);
  CHECK(json.at("accumulate") == 2);
  const nlohmann::json planned = run_command(folder, {"plan", "-c", "c.yaml", "--json", "-"}).json();
  CHECK(planned.at("batch_size") == 12);
  CHECK(json.at("saved") == planned.at("memory").at("saved"));  // of one part
  check_says(run_command(folder, {"explain", "-c", "c.yaml"}).out, "batch 12 in 2 parts");
}

TEST_CASE("explain: what backward takes besides does not grow with the number of coded tensors") {
  const TemporaryFolder folder(
      "model: {name: vit, image_size: 32, patch_size: 4, embed_dim: 64, depth: 3, num_heads: 4}\n"
      "data: {name: shapes}\ntrain: {batch_size: 32, threads: 1}\nmemory: {policy: adaptive}\n");
  const auto explained = [&](const char* depth) {
    return run_command(folder, {"explain", "-c", "c.yaml", depth, "--json", "-"}).json();
  };
  const nlohmann::json few = explained("model.depth=3"), many = explained("model.depth=9");
  CHECK(many.at("saved") > few.at("saved"));
  CHECK(many.at("backward") == few.at("backward"));
  const std::int64_t transient = few.at("backward").at("transient"), workspace = few.at("backward").at("workspace");
  CHECK(workspace > 0);
  const std::string told = run_command(folder, {"explain", "-c", "c.yaml"}).out;
  for (const std::int64_t bytes : {transient, workspace}) check_says(told, format_bytes(bytes));
  check_says(told, "a run measures sensitivities");
}

TEST_CASE("explain: blocks that are alike share a group, and the largest comes first") {
  const TemporaryFolder folder(
      "model: {name: vit, image_size: 32, patch_size: 4, embed_dim: 64, depth: 4, num_heads: 4}\n"
      "data: {name: shapes}\ntrain: {batch_size: 32, threads: 1}\n");
  const CommandResult told = test::run(folder, {"explain", "-c", "c.yaml"});
  const std::size_t alike = told.out.find("\nblocks.*: 3 × "), last = told.out.find("\nblocks.3: ");
  CHECK(alike < last);
  CHECK(last != std::string::npos);
  CHECK(told.out.find("blocks.0") > last);  // only as a reader of what the model itself makes
  const nlohmann::json json = run_command(folder, {"explain", "-c", "c.yaml", "--json", "-"}).json();
  CHECK(std::ranges::any_of(json.at("slots"), [](const auto& slot) { return slot.at("path") == "blocks.2.mlp.fc1"; }));
}

TEST_CASE("explain: a slope is shown as slope2, not as 2 bits") {
  const TemporaryFolder folder(
      "model: {name: vit, image_size: 32, patch_size: 4, embed_dim: 64, depth: 2, num_heads: 4}\n"
      "data: {name: shapes}\ntrain: {batch_size: 16, threads: 1}\n"
      "memory: {policy: exact, rules: [{op: gelu, hold: int4}, {user: gelu, hold: slope2}]}\n");
  const CommandResult told = run_command(folder, {"explain", "-c", "c.yaml"});
  check_says(told.out, "quantize, 4 bit");
  check_says(told.out, "quantize, slope2");
  CHECK(told.out.find("quantize, 2 bit") == std::string::npos);
  const nlohmann::json json = run_command(folder, {"explain", "-c", "c.yaml", "--json", "-"}).json();
  CHECK(std::ranges::count_if(json.at("slots"), [](const auto& slot) { return slot.at("slope") == true; }) == 2);
}

}  // namespace lacuna::test
