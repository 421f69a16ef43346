#include "models/checkpoint.h"

#include "apps/train/run_folder.h"
#include "apps/train/setup.h"
#include "core/error.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

namespace lacuna::apps {
namespace {

nlohmann::json whole_manifest() {
  return nlohmann::json::parse(R"({"format": 2, "progress": {"step": 8, "epochs_evaluated": 2,
    "totals": {"loss_sum": 0.5, "samples": 4, "sums": {"accuracy": [3, 4]}}, "train_loss": 1, "last": null,
    "best": {"loss": 1, "metrics": {"accuracy": 0.5}, "samples": 2}, "identity": {"train.seed": "1"}},
    "files": {"model.safetensors": "a", "memory.safetensors": "c", "optimizer.safetensors": "b"}})");
}

std::string refusal(const std::string& text) {
  try {
    parse_manifest(text, "m");
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::input);
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("checkpoint: a manifest is read") {
  const Manifest manifest = parse_manifest(whole_manifest().dump(), "m");
  const Progress& progress = manifest.progress;
  CHECK(progress.step == 8);
  CHECK(progress.totals.sums.at("accuracy") == std::vector<double>{3, 4});
  CHECK(!progress.last);
  CHECK(progress.best->metrics.at("accuracy") == 0.5);
  CHECK(progress.identity.at("train.seed") == "1");
  CHECK(manifest.files.at("model.safetensors") == "a");
}

TEST_CASE("checkpoint: a manifest with anything else is refused") {
  struct Change {
    const char* where;
    nlohmann::json value;
    const char* reason;
  };
  const Change changes[] = {{"/format", 0, "format 2"},
                            {"/format", "1", "`format`"},
                            {"/progress", 1, "`step`"},
                            {"/progress/step", -1, "`step`"},
                            {"/progress/step", 1e300, "`step`"},
                            {"/progress/step", 18446744073709551615U, "`step`"},
                            {"/progress/step", 1, "2 epochs"},
                            {"/progress/totals", 1, "`loss_sum`"},
                            {"/progress/totals/loss_sum", nullptr, "`loss_sum`"},
                            {"/progress/totals/sums/accuracy", {"x"}, "`accuracy`"},
                            {"/progress/best/metrics/accuracy", "x", "`accuracy`"},
                            {"/progress/identity", {1}, "`identity`"},
                            {"/files/model.safetensors", 1, "`files`"},
                            {"/files/..~1x", "c", "`files`"},
                            {"/files", nlohmann::json::object(), "`files`"}};
  for (const Change& change : changes) {
    nlohmann::json manifest = whole_manifest();
    manifest[nlohmann::json::json_pointer(change.where)] = change.value;
    const std::string message = refusal(manifest.dump());
    INFO(change.where, ": ", message);
    test::check_says(message, change.reason);
  }
  test::check_says(refusal("{"), "no JSON");
  test::check_says(refusal(std::string(1 << 20, '[')), "no JSON");
}

TEST_CASE("checkpoint: metrics that are about to be written again are left out, and so is what is none") {
  const std::string before = "{\"step\":1}\n", within = "{\"step\":2}\n{\"step\":2,\"epoch\":1,\"val_loss\":1}\n",
                    evaluated = "{\"step\":4,\"epoch\":2,\"val_loss\":2}\n";
  const auto kept = [&](const Progress& progress) {
    std::istringstream lines(before + "nonsense\n{\"step\":\"1\"}\n[]\n" + within + evaluated + "{\"step\":5}\n");
    return kept_metrics(lines, progress);
  };
  CHECK(kept({.step = 4, .evaluated = 2}) == before + within);  // the evaluation of step 4 is done again
  CHECK(kept({.step = 4, .evaluated = 4}) == before + within + evaluated);
}

TEST_CASE("checkpoint: a policy's state that the policy cannot have written is refused with its file") {
  class Damaged final : public MemoryPolicy {
   public:
    std::string_view name() const override { return "mesa"; }
    Hold decide(const SavedTensorInfo&) override { return {}; }
    std::map<std::string, Tensor> state() const override {
      return {{"fc linear", Tensor::zeros({3}, DType::f32, Device::cpu)}};
    }
  };
  const test::TemporaryFolder folder;
  Setup setup(parse_configuration("model: {name: vit, image_size: 8, patch_size: 4, embed_dim: 8, depth: 1, "
                                  "num_heads: 2, num_classes: 10}\n",
                                  "c.yaml"),
              Device::cpu);
  Damaged damaged;
  write_checkpoint(folder / "checkpoint", {setup.model(), setup.optimizer(), damaged, nullptr}, {});
  const std::unique_ptr<MemoryPolicy> mesa = make_policy("mesa");
  try {
    load_checkpoint(folder / "checkpoint", {setup.model(), setup.optimizer(), *mesa, nullptr});
    FAIL("taken");
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::input);
    CHECK(error.what() == (folder / "checkpoint/memory.safetensors").string() +
                              ": memory policy mesa: expected the ranges of fc linear as f32 [groups, 2], got f32 [3]");
  }
}

}  // namespace lacuna::apps
