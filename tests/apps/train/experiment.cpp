// The data set and the model of a configuration are opened once for all that a command does with them.
#include "apps/command.h"
#include "data/dataset.h"
#include "models/registry.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace lacuna::apps {
namespace {

int described = 0, opened = 0, built = 0;

/// A data set and a model that count how often they are described, opened and built.
void register_counted() {
  static const bool once = [] {
    DatasetKind kind = dataset_kinds().get("shapes");
    kind.describe = [](const DatasetOptions& options) {
      ++described;
      return dataset_kinds().get("shapes").describe(options);
    };
    kind.open = [](const DatasetOptions& options) {
      ++opened;
      return dataset_kinds().get("shapes").open(options);
    };
    dataset_kinds().add("experiment_shapes", std::move(kind));
    ModelFamily family = model_families().get("vit");
    family.build = [](const lacuna::Options& options, const ModelContext& context) {
      ++built;
      return model_families().get("vit").build(options, context);
    };
    model_families().add("experiment_vit", std::move(family));
    return true;
  }();
  static_cast<void>(once);
  described = opened = built = 0;
}

ExitCode run(std::vector<std::string> words) {
  words.insert(words.begin(), "lacuna");
  std::vector<const char*> arguments;
  for (const std::string& word : words) arguments.push_back(word.c_str());
  return run_command_line(static_cast<int>(arguments.size()), arguments.data());
}

}  // namespace

TEST_CASE("experiment: a run describes its data set once and builds its model twice, with a plan three times") {
  const test::TemporaryFolder folder;
  const std::string dir = (folder / "run").string();
  const std::vector<std::string> words{
      "train",
      "model={name: experiment_vit, image_size: 16, patch_size: 4, embed_dim: 16, depth: 2, num_heads: 2}",
      "data={name: experiment_shapes, train_size: 16, val_size: 8}",
      "train={batch_size: 8, epochs: 1, threads: 1}",
      "output.dir=" + dir,
      "--json",
      (folder / "out.json").string()};
  for (const std::string memory : {"memory.policy=exact", "memory={policy: auto, budget: 270KiB}"}) {
    CAPTURE(memory);
    const bool plans = memory.find("auto") != std::string::npos;
    std::vector<std::string> begin = words;
    begin.insert(begin.end(), {memory, "--overwrite"});
    register_counted();
    REQUIRE(run(begin) == 0);
    CHECK(described == 1);
    CHECK(built == (plans ? 3 : 2));
    register_counted();
    REQUIRE(run({"train", "--resume", dir, "train.epochs=2"}) == 0);
    CHECK(described == 1);
    CHECK(opened == 2);
    CHECK(built == 2);  // the plan is the recorded one
  }
  register_counted();
  REQUIRE(run({"eval", dir}) == 0);
  CHECK(described == 1);
  CHECK(opened == 1);
  CHECK(built == 2);
}

}  // namespace lacuna::apps
