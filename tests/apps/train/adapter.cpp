// Runs with adapters: checkpoints that hold the adapter alone, on top of the weights in model.from.
#include "models/io/safetensors.h"
#include "tests/apps/train/train_run.h"

namespace lacuna::test {

TEST_CASE("train: a run with an adapter goes on to the same bits, on the same base alone") {
  const std::string lora = "adapter={name: lora, rank: 2, alpha: 6, dropout: 0.2, targets: [qkv, fc1]}";
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{lora},
        {lora, "train.ema_decay=0.9", "freeze.train=[\"@head\", \"@norms\"]"},
        {"adapter={name: lora_fa, rank: 2, alpha: 6}", "memory={policy: fixed, bits: 4}"}}) {
    const TemporaryFolder folder(vit);
    test::run(folder, train({"train.steps=1", "output.dir=base"}));
    fs::copy_file(folder / "base/last/model.safetensors", folder / "base.safetensors");
    const auto run = [&](std::vector<std::string> arguments) {
      arguments.insert(arguments.end(), more.begin(), more.end());
      arguments.emplace_back("model.from=base.safetensors");
      return run_command(folder, train(std::move(arguments)));
    };
    REQUIRE(run({"output.dir=whole"}).code == 0);
    REQUIRE(run({"output.dir=parts", "train.steps=5"}).code == 0);
    test::run(folder, {"train", "--resume", "parts", "train.steps=0"});
    const std::set<std::string> names = names_in(folder / "whole/last");
    CHECK(names == names_in(folder / "parts/last"));
    CHECK_FALSE(names.contains("model.safetensors"));
    const fs::path whole = folder / "whole/last";
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(fs::canonical(whole))) {
      if (!entry.is_regular_file()) continue;
      const fs::path name = fs::relative(entry.path(), fs::canonical(whole));
      CHECK_MESSAGE((read_file(entry.path()) == read_file(folder / "parts/last" / name)), name.string());
    }
    CHECK(fs::file_size(folder / "whole/last/adapter_model.safetensors") < fs::file_size(folder / "base.safetensors"));

    // The evaluation of the run is that of its last epoch.
    const CommandResult evaluated = test::run(folder, {"eval", "whole/last", "--json", "-"});
    CHECK(evaluated.json().at("val_loss").get<double>() ==
          doctest::Approx(read_json(folder / "whole/summary.json").at("val_loss").get<double>()));

    // Merged, the folder is a model by itself, with the same results.
    test::run(folder, {"export", "whole/last", "merged"});
    const CommandResult merged = test::run(folder, {"eval", "-c", "c.yaml", "model.from=merged", "--json", "-"});
    CHECK(merged.json().at("val_loss").get<double>() ==
          doctest::Approx(evaluated.json().at("val_loss").get<double>()).epsilon(1e-4));

    // The base may move; where it is then has to be said, and it has to be the same.
    fs::rename(folder / "base.safetensors", folder / "moved.safetensors");
    check_refused(folder, {"export", "whole/last", "gone"}, {"base.safetensors", "--base"});
    test::run(folder, {"export", "whole/last", "again", "--base", "moved.safetensors"});
    CHECK(read_file(folder / "again/model.safetensors") == read_file(folder / "merged/model.safetensors"));
    const CommandResult there =
        test::run(folder, {"eval", "whole/last", "model.from=moved.safetensors", "--json", "-"});
    CHECK(there.json().at("val_loss") == evaluated.json().at("val_loss"));
    check_refused(folder, {"export", "base/last", "gone", "--base", "moved.safetensors"}, {"--base"});
    fs::rename(folder / "moved.safetensors", folder / "base.safetensors");

    // Alone, it is the checkpoint's own folder, or one in the names of another library.
    test::run(folder, {"export", "whole/last", "adapter", "--adapter"});
    const auto tensors = [&](const std::string& from) {
      std::set<std::string> stored;
      const SafetensorsFile file(folder / from / "adapter_model.safetensors");
      for (const SafetensorsEntry& entry : file.entries()) stored.insert(entry.name);
      return stored;
    };
    const bool averaged = fs::exists(folder / "whole/last/average");
    CHECK(tensors("adapter") == tensors(averaged ? "whole/last/average" : "whole/last"));
    CHECK(run_command(folder, {"export", "base/last", "no-adapter", "--adapter"}).code == 2);
    CHECK_FALSE(fs::exists(folder / "no-adapter"));

    // Another run begins with the adapter; the checkpoint is no model by itself.
    const CommandResult begun =
        run_command(folder, train({"output.dir=next", "model.from=base.safetensors", "adapter.from=whole/best"}));
    INFO(begun.error);
    CHECK(begun.code == 0);
    check_refused(folder, train({"output.dir=alone", "model.from=whole/best"}), {"adapter.from=whole/best"});
    // Settings that are those of the folder may be given, others not.
    const auto with = [&](const std::string& settings) {
      std::string adapter = more[0];
      adapter.insert(adapter.size() - 1, settings + ", from: whole/best");
      return train({"train.steps=1", "output.dir=equal", "model.from=base.safetensors", adapter});
    };
    test::run(folder, with(""));
    // The folder's hold in place of the kind's defaults.
    const std::string name = more[0].find("lora_fa") == std::string::npos ? "lora" : "lora_fa";
    test::run(folder, train({"train.steps=1", "output.dir=named", "model.from=base.safetensors",
                             "adapter={name: " + name + ", from: whole/best}"}));
    CHECK(read_json(folder / "named/last/adapter_config.json").at("lora_alpha") == 6);
    CHECK(read_json(folder / "named/last/adapter_config.json").at("r") == 2);
    check_refused(folder, with(", rslora: true"), {"adapter.rslora"});
    if (more[0] == lora)
      check_refused(folder,
                    train({"model.from=base.safetensors", "adapter={name: lora, from: whole/best, targets: [qkv]}"}),
                    {"adapter.targets"});

    // With another base the adapter would mean something else.
    fs::copy_file(folder / "base/last/model.safetensors", folder / "base.safetensors",
                  fs::copy_options::overwrite_existing);
    test::run(folder, train({"train.steps=2", "output.dir=other"}));
    fs::copy_file(folder / "other/last/model.safetensors", folder / "base.safetensors",
                  fs::copy_options::overwrite_existing);
    check_refused(folder, {"train", "--resume", "parts", "train.epochs=4"}, {"weights of model.from"});
  }
}

TEST_CASE("train: what an adapter cannot have beside it is refused") {
  const TemporaryFolder folder(vit);
  check_refusals(folder, train({}),
                 {{"adapter.targets=[qkv]", "adapter.name"},
                  {"adapter.name=lora\nfreeze.freeze=[\"*\"]", "freeze.train"},
                  {"adapter={name: lora, from: x, rank: 3}", "x"},
                  {"adapter={name: lora, from: x}", "x"},
                  {"adapter={name: lora, rank: 0}", "rank"},
                  {"adapter={rank: 2}", "lora"},
                  {"adapter={name: lora, targets: [nothing]}", "nothing"}});
}

}  // namespace lacuna::test
