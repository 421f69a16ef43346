// Linear probes: heads that a run trains on cached features of a frozen model.
#include "tests/apps/train/train_run.h"

#include <fmt/format.h>

namespace lacuna::test {
namespace {

constexpr std::string_view probe =
    "model: {name: vit, from: base.safetensors, image_size: 8, patch_size: 4, embed_dim: 8, depth: 2, num_heads: 2}\n"
    "data: {name: shapes, train_size: 35, val_size: 20}\n"
    "task: {name: probe, rates: [0.0001, 0.3, 5]}\n"
    "train: {epochs: 3, batch_size: 8, accumulate: 2, threads: 1}\n"
    "optimizer: {name: sgd, lr: 0.5, momentum: 0.9}\n"
    "schedule: {name: cosine}\n";

// Its features tell some classes apart, so that heads differ.
constexpr std::string_view probed_resnet =
    "model: {name: resnet, from: base.safetensors, image_size: 16, block: basic, layers: [1, 1], channels: [8, 16],\n"
    "        stem: cifar, stem_width: 8}\n"
    "data: {name: shapes, train_size: 60, val_size: 50}\n"
    "task: {name: probe, rates: [0.001, 0.3, 5]}\n"
    "train: {epochs: 3, batch_size: 12, accumulate: 2, threads: 1}\n"
    "optimizer: {name: sgd, lr: 0.5, momentum: 0.9}\n"
    "schedule: {name: cosine}\n";

/// With the model's weights in base.safetensors.
void prepare(const TemporaryFolder& folder, std::string_view configuration, const std::string& epochs = "1") {
  write_file(folder / "c.yaml", configuration);
  run(folder, train({"output.dir=base", "model.from=\"\"", "task={name: classification}", "train.epochs=" + epochs,
                     "optimizer.lr=0.1"}));
  fs::copy_file(folder / "base/last/model.safetensors", folder / "base.safetensors");
}

}  // namespace

TEST_CASE("train: a probe's best head is the classifier of its checkpoints") {
  const TemporaryFolder folder;
  prepare(folder, probed_resnet, "20");
  // Every step is saved before its evaluation, and some again after it.
  run(folder, train({"output.dir=r", "train.eval_every_steps=1", "output.save_every_steps=1", "output.keep=20"}));
  int steps = 0;
  std::set<double> accuracies;
  for (const nlohmann::json& line : noted(folder / "r")) {
    if (!line.contains("val_loss")) continue;
    const std::string point = fmt::format("r/checkpoints/step-{:08}", line.at("step").get<int>());
    if (read_json(folder / point / "checkpoint.json").at("progress").at("evaluated") != line.at("step")) continue;
    ++steps;
    accuracies.insert(line.at("val_accuracy").get<double>());
    const nlohmann::json evaluated = run(folder, {"eval", point, "--json", "-"}).json();
    CHECK(evaluated.at("val_accuracy") == line.at("val_accuracy"));
    double best = 0;
    for (const char* const rate : {"0.001", "0.3", "5"})
      best = std::max(best, line.at(fmt::format("val_rate_{}_accuracy", rate)).get<double>());
    CHECK(line.at("val_accuracy") == best);
  }
  CHECK(steps >= 3);
  CHECK(accuracies.size() > 1);
  CHECK(read_json(folder / "r/summary.json").at("best").at("metric") == "accuracy");
}

TEST_CASE("export: a probe is a model of timm") {
  const TemporaryFolder folder;
  prepare(folder, probe);
  run(folder, train({"output.dir=r"}));
  run(folder, {"export", "r", "exported", "--format", "timm"});
  const nlohmann::json of_run = run(folder, {"eval", "r", "--json", "-"}).json();
  const nlohmann::json exported =
      run(folder, {"eval", "exported", "data.name=shapes", "data.val_size=20", "--json", "-"}).json();
  CHECK(exported.at("val_accuracy") == of_run.at("val_accuracy"));
  CHECK(exported.at("val_loss").get<double>() == doctest::Approx(of_run.at("val_loss").get<double>()));
}

TEST_CASE("train: a probe of a folder may read the mean of the patches besides") {
  const TemporaryFolder folder;
  prepare(folder, probe);
  run(folder, train({"output.dir=r", "model.from=base/last", "model.global_pool=token_avg"}));
  const nlohmann::json of_run = run(folder, {"eval", "r/last", "--json", "-"}).json();
  CHECK(of_run.at("val_accuracy") == read_json(folder / "r/summary.json").at("val_accuracy"));
  const nlohmann::json of_base = run(folder, {"eval", "base/last", "--json", "-"}).json();
  CHECK(of_run.at("parameters").get<int>() == of_base.at("parameters").get<int>() + 8 * 10);
  check_refusals(folder, {"export", "r"}, {{"exported", "token_avg"}});  // timm has no such model
  run(folder, {"train", "--resume", "r", "train.epochs=4"});
  check_refusals(folder, train({"output.dir=other", "model.from=base/last"}),
                 {{"model.global_pool=avg", "global_pool"}});
}

TEST_CASE("train: a resumed probe goes on to the same bits, without the weights that it began with") {
  const TemporaryFolder folder;
  prepare(folder, probe);
  run(folder, train({"output.dir=whole"}));
  for (const int steps : {4, 6}) {  // at the end of an epoch, and within one
    const std::string parts = fmt::format("parts{}", steps);
    run(folder, train({"output.dir=" + parts, fmt::format("train.steps={}", steps)}));
    fs::rename(folder / "base.safetensors", folder / "gone.safetensors");
    run(folder, {"train", "--resume", parts, "train.steps=0"});
    fs::rename(folder / "gone.safetensors", folder / "base.safetensors");
    check_same_checkpoint(folder, "whole", parts);
  }
  CHECK(names_in(folder / "whole/last").contains("heads.safetensors"));
  check_refusals(folder, {"train", "--resume", "whole", "train.epochs=4"}, {{"task.rates=[1]", "task.rates"}});
}

TEST_CASE("train: a probe that is stopped while it computes features goes on") {
  const TemporaryFolder folder;
  prepare(folder, probe);
  CommandRun stopped(folder, train({"output.dir=r", "data.train_size=2000000"}));
  while (stopped.running() && !fs::exists(folder / "r/record.json"))
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  stopped.signal(SIGTERM);
  CHECK(stopped.wait().code == 128 + SIGTERM);
  CHECK(read_json(folder / "r/summary.json").at("steps") == 0);
}

TEST_CASE("train: features are computed without augmentation, which is said") {
  const TemporaryFolder folder;
  prepare(folder, probe);
  run(folder, train({"output.dir=plain"}));
  const CommandResult augmented =
      run(folder, train({"output.dir=augmented", "data.augment=crop_flip", "data.mixup=0.8", "data.repeats=2"}));
  for (const char* const key : {"data.augment", "data.mixup", "data.repeats"}) check_says(augmented.error, key);
  check_same_checkpoint(folder, "plain", "augmented");
  run(folder, train({"output.dir=drawn", "data.sampler=balanced"}));  // by classes
  CHECK(read_file(folder / "drawn/last/heads.safetensors") != read_file(folder / "plain/last/heads.safetensors"));
}

TEST_CASE("train: what a probe cannot have beside it is refused") {
  const TemporaryFolder folder(probe);
  check_refusals(folder, train({}),
                 {{"task.rates=[]", "task.rates"},
                  {"task.rates=[1, 1]", "task.rates"},
                  {"task.rates=[0]", "rates"},
                  {"freeze.train=[\"@head\"]", "freeze.train"},
                  {"freeze.freeze=[\"blocks.*\"]", "freeze.freeze"},
                  {"adapter.name=lora", "adapter.name"},
                  {"optimizer.layer_decay=0.5", "optimizer.layer_decay"},
                  {"train.clip_norm=1", "train.clip_norm"},
                  {"train.ema_decay=0.9", "train.ema_decay"},
                  {"data.broken=skip", "data.broken"},
                  {"model.name=deit_distilled", "one head"}});
}

TEST_CASE("plan: a probe's features are counted, and its heads") {
  const TemporaryFolder folder(probe);
  const nlohmann::json planned = run(folder, {"plan", "-c", "c.yaml", "model.from=\"\"", "--json", "-"}).json();
  const std::int64_t width = 8, classes = 10;
  CHECK(planned.at("features") == (35 + 20) * (width * 4 + 8));
  CHECK(planned.at("trainable_parameters") == 3 * classes * (width + 1));
  const nlohmann::json more =
      run(folder, {"plan", "-c", "c.yaml", "model.from=\"\"", "data.train_size=1000035", "--json", "-"}).json();
  CHECK(more.at("memory").at("peak").get<std::int64_t>() ==
        planned.at("memory").at("peak").get<std::int64_t>() + 1'000'000 * (width * 4 + 8));
  CHECK(more.at("peak_in_training").get<std::int64_t>() ==
        planned.at("peak_in_training").get<std::int64_t>() + 1'000'000 * (width * 4 + 8));
}

TEST_CASE("train: a probe on texts") {
  const TemporaryFolder folder;
  write_file(
      folder / "c.yaml",
      "model: {name: bert, hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 16,\n"
      "        vocab_size: 50}\n"
      "data: {name: random_tokens, length: [4, 9, 6], vocabulary: 50, train_size: 20, val_size: 9}\n"
      "task: {name: probe, rates: [0.1, 1]}\n"
      "train: {epochs: 2, batch_size: 4, threads: 1}\n"
      "optimizer: {name: sgd}\n");
  run(folder, train({"output.dir=r"}));
  const nlohmann::json evaluated = run(folder, {"eval", "r/last", "--json", "-"}).json();
  CHECK(evaluated.at("val_accuracy") == read_json(folder / "r/summary.json").at("val_accuracy"));
}

}  // namespace lacuna::test
