// A run that goes on: to the same bits, and from what a killed one left.
#include "optim/optimizer.h"
#include "tests/apps/train/train_run.h"

#include <cmath>

namespace lacuna::test {

TEST_CASE("train: a resumed run gives the bits of an unbroken one") {
  struct Case {
    std::string_view configuration;
    std::vector<std::string> overrides;
  };
  const Case cases[] = {
      {vit, {}},
      {resnet, {}},
      {vit, {"train.threads=2"}},
      {resnet, {"train.threads=2", "train.precision=bf16"}},
      {vit, {"train.precision=bf16", "freeze.train=[\"head*\", \"*norm*\"]"}},
      {vit, {"memory.policy=mesa"}},
      {vit, {"data.mixup=0.8", "data.cutmix=1", "data.mixup_off_epoch=2", "task.label_smoothing=0.1"}},
      {resnet, {"data.sampler=balanced", "data.cutmix=1", "data.mixup_mode=element", "task.loss=bce"}},
      {resnet,
       {"train.best_by=loss", "train.patience=1", "task.class_weights=balanced", "train.ema_decay=0.9",
        "train.ema_warmup=timm"}},
      {resnet, {"memory.policy=fixed", "memory.recompute=[\"layer*\"]"}},
      {vit, {"memory={policy: adaptive, bits: 2.5, measure_every: 2}", "train.threads=2"}},
      {resnet, {"memory={policy: adaptive, measure_every: 3, by_draws: true}", "train.accumulate=2"}},
      // Chosen are six bits; several numbers of bits; one block recomputed, and eight bits.
      {resnet, {"memory={policy: auto, budget: 14KiB, budget_of: saved}"}},
      {vit, {"memory={policy: auto, budget: 30KiB, budget_of: saved}", "model.embed_dim=48"}},
      {vit, {"memory={policy: auto, budget: 20KiB, budget_of: saved}", "model.embed_dim=48"}},
      {resnet, {"freeze.freeze=[\"*bn*\"]", "model.from=from.safetensors"}},
      {resnet, {"memory={policy: auto, budget: 14KiB, budget_of: saved}", "model.from=from.safetensors"}}};
  for (const Case& one : cases) {
    const TrainedFolder folder({"train.seed=5", "train.steps=1"}, one.configuration);
    fs::copy_file(folder / "r/last/model.safetensors", folder / "from.safetensors");
    const auto run = [&](std::vector<std::string> arguments) {
      arguments.insert(arguments.end(), one.overrides.begin(), one.overrides.end());
      test::run(folder, train(std::move(arguments)));
    };
    // A run that ends by train.steps is evaluated there: so is the whole one.
    const std::string evaluated = "train.eval_every_steps=1";
    run({"output.dir=whole", evaluated});
    run({"output.dir=parts", "train.steps=2", evaluated});
    fs::remove(folder / "from.safetensors");  // a run that goes on has its weights in its checkpoints
    run({"--resume", "parts", "train.steps=5", evaluated});
    test::run(folder, {"train", "--resume", "parts", "train.steps=0"});
    check_same_checkpoint(folder, "whole", "parts");
    CHECK(lines_in(folder / "parts/metrics.jsonl") == lines_in(folder / "whole/metrics.jsonl"));
    // Nothing is left to do, and the summary stays.
    test::run(folder, {"train", "--resume", "parts"});
    const nlohmann::json whole = read_json(folder / "whole/summary.json"),
                         again = read_json(folder / "parts/summary.json");
    for (const auto& item : whole.items()) CHECK_MESSAGE(again.contains(item.key()), item.key());
    CHECK(again.at("val_accuracy") == whole.at("val_accuracy"));
    CHECK(again.at("step_seconds").at("median") > 0);
  }
}

TEST_CASE("train: what a run may not change when it goes on is refused, what it may is not") {
  const TrainedFolder folder({"train.steps=2", "freeze.freeze=[\"cls_token\"]"});
  const auto resume = [&](std::vector<std::string> rest) {
    rest.insert(rest.begin(), {"train", "--resume", "r"});
    return run_command(folder, std::move(rest));
  };
  check_refusals(folder, {"train", "--resume", "r"},
                 {{"train.seed=2", "train.seed"},
                  {"data.seed=2", "data.seed"},
                  {"data.train_size=36", "data.train_size"},
                  {"optimizer={name: sgd, momentum: 0.9}", ".momentum_buffer", "f32 ["},
                  {"optimizer.state=bf16", "optimizer.state", "another"},
                  {"--overwrite", "--overwrite", "one of them"}});
  const CommandResult other = resume({"optimizer={name: sgd, momentum: 0.9}"});
  CHECK(std::ranges::count(other.error, '\n') < 12);  // the first few, and how many more

  const CommandResult thawed = resume({"train.steps=3", "freeze.freeze=[]", "optimizer.lr=1e-4", "memory.policy=keep"});
  INFO(thawed.error);
  CHECK(thawed.code == 0);
  check_says(thawed.out, "1 parameters were frozen before");
  CHECK(resume({"train.steps=4", "freeze.train=[\"head*\"]"}).code == 0);
}

TEST_CASE("train: what stands beside the checkpoints is never taken for one, nor removed") {
  const TrainedFolder folder;
  const std::vector<std::string> begin = train({"output.dir=r", "train.steps=2"});
  // A step of another run, and one that a killed save left.
  fs::copy(folder / "r/checkpoints/step-00000002", folder / "r/checkpoints/step-00000003", fs::copy_options::recursive);
  for (const char* const unfinished : {"step-00000004.tmp", "step-00000004.123.0.tmp"})
    fs::create_directory(folder / "r/checkpoints" / unfinished);
  fs::create_directory(folder / "r/checkpoints/step-mine");
  fs::create_directory(folder / "r/checkpoints/step-00000004.old.tmp");
  write_file(folder / "r/checkpoints/notes.tmp", "mine");
  write_file(folder / "r/summary.json.123.tmp", "{");
  test::run(folder, {"train", "--resume", "r", "train.steps=3"});
  CHECK(names_in(folder / "r/checkpoints") ==
        std::set<std::string>{"step-00000002", "step-00000003", "step-00000004.old.tmp", "step-mine", "notes.tmp"});
  CHECK(!fs::exists(folder / "r/summary.json.123.tmp"));
  test::run(folder, train({"output.dir=whole", "train.steps=3"}));
  CHECK(read_file(folder / "r/last/model.safetensors") == read_file(folder / "whole/last/model.safetensors"));

  fs::remove(folder / "r/config.yaml");
  check_refusals(folder, begin, {{"", "config.yaml", "checkpoints"}});
  std::vector<std::string> replacing = begin;
  replacing.emplace_back("--overwrite");
  CHECK(run_command(folder, replacing).code == 0);
  CHECK(names_in(folder / "r/checkpoints") ==
        std::set<std::string>{"step-00000002", "step-00000004.old.tmp", "step-mine", "notes.tmp"});
}

TEST_CASE("train: a run that reached its end is left as it is, and says so") {
  const TemporaryFolder folder(vit);
  for (const std::string end : {"train.epochs=2", "train.steps=3"}) {
    CAPTURE(end);
    test::run(folder, train({"output.dir=r", end, "--overwrite"}));
    const std::string summary = read_file(folder / "r/summary.json"), metrics = read_file(folder / "r/metrics.jsonl"),
                      configuration = read_file(folder / "r/config.yaml");
    const CommandResult again = run_command(folder, {"train", "--resume", "r", "optimizer.lr=0.5"});
    CHECK(again.code == 0);
    check_says(again.out, "nothing to do");
    CHECK(again.out.find("epoch") == again.out.find("epochs of 4 steps"));
    check_says(again.out, "larger " + end.substr(0, end.find('=')));
    CHECK(read_file(folder / "r/summary.json") == summary);
    CHECK(read_file(folder / "r/metrics.jsonl") == metrics);
    CHECK(read_file(folder / "r/config.yaml") == configuration);
    const CommandResult longer = run_command(folder, {"train", "--resume", "r", "train.steps=0", "train.epochs=3"});
    CHECK(longer.code == 0);
    check_says(longer.out, "epoch 3/3: ");
  }
  // In batches of another size it has gone through its epochs in other steps than these would take.
  test::run(folder, {"train", "--resume", "r", "train.epochs=4", "train.batch_size=2"});
  const CommandResult again = run_command(folder, {"train", "--resume", "r"});
  check_says(again.out, "larger train.epochs");
  check_refusals(folder, {"train", "--resume", "r"}, {{"output={dir: other}", "dir", "its folder, r"}});
  CHECK(run_command(folder, {"train", "--resume", "r", "output.dir=./r"}).code == 0);  // where it is
}

TEST_CASE("train: a run that goes on with no step left to take has in its summary what the steps before it took") {
  const TemporaryFolder folder(vit);
  for (const auto& [steps, end] : {std::pair{4U, std::string("train.epochs=1")}, {3U, "train.steps=3"}}) {
    CAPTURE(end);
    test::run(folder, train({"output.dir=whole", end, "schedule.warmup_epochs=0", "--overwrite"}));
    const nlohmann::json whole = read_json(folder / "whole/summary.json");
    REQUIRE(whole.at("memory").at("saved") > 0);
    const auto check_resumed = [&](const std::vector<std::string>& rest) {
      std::vector<std::string> arguments{"train", "--resume", "r"};
      arguments.insert(arguments.end(), rest.begin(), rest.end());
      test::run(folder, arguments);
      const nlohmann::json resumed = read_json(folder / "r/summary.json");
      for (const std::string purpose : {"parameters", "gradients", "optimizer", "saved", "transient"})
        CHECK_MESSAGE(resumed.at("memory").at(purpose) == whole.at("memory").at(purpose), purpose);
      for (const std::string key : {"saved", "taken_for"})
        CHECK_MESSAGE(resumed.at("at_peak").at(key) == whole.at("at_peak").at(key), key);
      for (const std::string key : {"saved_by_path", "steps", "val_accuracy", "train_loss"})
        CHECK_MESSAGE(resumed.at(key) == whole.at(key), key);
      CHECK(resumed.at("step_seconds").at("median") > 0);
      CHECK(resumed.at("samples_per_second") > 0);
      CHECK(!resumed.contains("stopped"));
    };
    REQUIRE(stop_in_evaluation(folder, steps, {end, "schedule.warmup_epochs=0"}).code == 128 + SIGTERM);
    check_resumed({"data.val_size=10"});
    // Killed between the last checkpoint and the summary.
    fs::remove(folder / "r/summary.json");
    check_resumed({});
    fs::remove_all(folder / "r");
  }
}

TEST_CASE("train: what nobody measured is missing in a summary, not zero") {
  const TemporaryFolder folder(vit);
  test::run(folder, train({"output.dir=r", "train.steps=4", "output.save_every_steps=1", "output.keep=9"}));
  test::run(folder, {"train", "--resume", "r/checkpoints/step-00000002", "train.steps=2"});
  const nlohmann::json summary = read_json(folder / "r/summary.json");
  CHECK(summary.at("steps") == 2);
  CHECK(summary.at("memory").at("saved").is_null());
  CHECK(summary.at("saved_by_path").empty());
  CHECK(summary.at("step_seconds").is_null());
  CHECK(summary.at("samples_per_second").is_null());
  CHECK(run_command(folder, {"report", "r"}).code == 0);
}

TEST_CASE("train: a run within an epoch does not go on to an end before it") {
  const TemporaryFolder folder(vit);
  test::run(folder, train({"output.dir=r", "train.epochs=3", "train.steps=6"}));
  const std::string summary = read_file(folder / "r/summary.json");
  check_refused(folder, {"train", "--resume", "r", "train.epochs=1"},
                {"the run is within epoch 2, and train.epochs is 1; give 2 or more"});
  CHECK(read_file(folder / "r/summary.json") == summary);
  CHECK(run_command(folder, {"train", "--resume", "r", "train.epochs=2", "train.steps=0"}).code == 0);
}

TEST_CASE("train: a run killed at any moment can be gone on with") {
  const TemporaryFolder folder(vit);
  // A rate that does not know how long the run is; and steps enough that a late signal comes before the last one.
  test::run(folder, train({"output.dir=whole", "train.epochs=20", "schedule.name=constant"}));
  for (const std::size_t steps : {2U, 5U, 6U}) {
    CHECK(stop_after(folder, steps, SIGKILL, "constant").code == 128 + SIGKILL);
    const CommandResult resumed =
        run_command(folder, train({"--resume", "r", "train.epochs=20", "schedule.name=constant"}));
    INFO(resumed.error);
    CHECK(resumed.code == 0);
    check_same_checkpoint(folder, "whole", "r");
    fs::remove_all(folder / "r");
  }
}

TEST_CASE("train: 20 steps broken at every fourth give the bits of 20 unbroken ones") {
  struct Case {
    std::string optimizer, policy;
    std::vector<std::string> more{};
  };
  // Wide enough that 8 bits are used: parameters below 4096 elements stay f32.
  const std::vector<std::string> wide{"model.embed_dim=40", "optimizer.state=int8", "optimizer.gradients=bf16"};
  const std::string batch_norm =
      "{name: resnet, image_size: 8, block: basic, layers: [1], channels: [16], stem: cifar, stem_width: 16}";
  std::vector<Case> cases{{"sgd", "{policy: mesa}", {"model=" + batch_norm}},
                          {"adamw", "{policy: exact}", {"train.ema_decay=0.9", "freeze.freeze=[\"cls_token\"]"}},
                          {"adamw", "{policy: exact}", wide},
                          {"adan", "{policy: mesa}", {"optimizer.state=bf16", "optimizer.in_backward=true"}},
                          {"adamw",
                           "{policy: adaptive, bits: 2.5, measure_every: 3, recompute: [\"blocks.1\"]}",
                           {"train.accumulate=7", "model.embed_dim=40"}}};
  const std::vector<std::string> policies{"{policy: exact}", "{policy: mesa}",
                                          "{policy: adaptive, bits: 3, measure_every: 3}"};
  // Optimizers and policies keep states of their own: each of either is in a case.
  for (const std::string& name : optimizers().names()) cases.push_back({name, policies[cases.size() % 3]});
  for (const Case& c : cases) {
    CAPTURE(c.optimizer);
    CAPTURE(c.policy);
    CAPTURE(c.more.size());
    const TemporaryFolder folder(vit);
    const auto run = [&](std::vector<std::string> rest) {
      // Five steps an epoch: the breaks, each with an evaluation, fall everywhere within one.
      rest.insert(rest.end(), {"train.epochs=4", "train.batch_size=7", "train.accumulate=1", "optimizer.lr=1e-2",
                               "train.eval_every_steps=4", "optimizer.name=" + c.optimizer, "memory=" + c.policy});
      rest.insert(rest.end(), c.more.begin(), c.more.end());
      test::run(folder, train(std::move(rest)));
    };
    run({"output.dir=whole"});
    run({"output.dir=parts", "train.steps=4"});
    for (int step = 8; step <= 20; step += 4) run({"--resume", "parts", "train.steps=" + std::to_string(step)});
    CHECK(read_json(folder / "whole/last/checkpoint.json").at("progress").at("step") == 20);
    check_same_checkpoint(folder, "whole", "parts");
    CHECK(noted(folder / "whole") == noted(folder / "parts"));
  }
}

TEST_CASE("train: the average of weights is saved, evaluated, and may come and go on resume") {
  const TemporaryFolder folder(vit);
  const std::string average = "average/model.safetensors";
  const auto run = [&](const std::vector<std::string>& rest) {
    const CommandResult result = test::run(folder, rest);
    return result;
  };
  run(train({"output.dir=r", "train.ema_decay=0.5", "train.epochs=1"}));
  CHECK(read_file(folder / "r/last" / average) != read_file(folder / "r/last/model.safetensors"));
  const nlohmann::json summary = read_json(folder / "r/summary.json");
  const nlohmann::json evaluated = run({"eval", "r", "--json", "-"}).json();
  CHECK(evaluated.at("val_loss") == summary.at("val_loss"));
  CHECK(evaluated.at("weights").get<std::string>().ends_with(average));
  CHECK(run({"eval", "r/last", "--json", "-"}).json().at("val_loss") == summary.at("val_loss"));
  check_says(run_command(folder, {"eval", "r/checkpoints/step-00000001"}).error, "has no checkpoint");
  fs::copy_file(folder / "r/last/model.safetensors", folder / "weights.safetensors");
  const nlohmann::json weights = run({"eval", "-c", "c.yaml", "model.from=weights.safetensors", "--json", "-"}).json();
  CHECK(weights.at("val_loss") != summary.at("val_loss"));

  run(train({"output.dir=plain", "train.epochs=1"}));
  CHECK(read_file(folder / "plain/last/model.safetensors") == read_file(folder / "r/last/model.safetensors"));

  run({"train", "--resume", "r", "train.ema_decay=0", "train.epochs=3", "train.steps=5"});
  CHECK(!fs::exists(folder / "r/last" / average));
  // Begun again, it begins with the weights as they are.
  run({"train", "--resume", "r", "train.ema_decay=0.5", "train.epochs=3", "train.steps=5"});
  run({"train", "--resume", "r", "train.ema_decay=0.5", "train.epochs=3", "train.steps=6"});
  CHECK(fs::exists(folder / "r/last" / average));
}

TEST_CASE("train: with another batch size a run goes on in the same epoch, and so does its schedule") {
  const TemporaryFolder folder(vit);
  const std::vector<std::string> one_rate{"train.epochs=4", "schedule={name: step, milestones: [1, 2, 3], gamma: 0.5}"};
  const auto run = [&](std::vector<std::string> rest) {
    rest.insert(rest.end(), one_rate.begin(), one_rate.end());
    test::run(folder, train(std::move(rest)));
  };
  // 35 images: six steps of 8, four an epoch; then, 16 images into the second, steps of 5.
  run({"output.dir=r", "train.steps=6"});
  run({"--resume", "r", "train.batch_size=5", "train.accumulate=1"});
  const nlohmann::json place = read_json(folder / "r/last/checkpoint.json").at("progress");
  CHECK(place.at("step") == 6 + 3 + 7 + 7);
  CHECK(place.at("epochs_evaluated") == 4);
  std::vector<std::int64_t> steps(5);
  std::vector<std::int64_t> evaluated;
  for (const nlohmann::json& line : noted(folder / "r")) {
    const auto epoch = line.at("epoch").get<std::size_t>();
    if (line.contains("val_loss")) {
      evaluated.push_back(line.at("step"));
      continue;
    }
    ++steps.at(epoch);
    CHECK(line.at("lr").get<double>() == doctest::Approx(1e-3 * std::pow(0.5, static_cast<double>(epoch) - 1)));
  }
  CHECK(steps == std::vector<std::int64_t>{0, 4, 2 + 3, 7, 7});
  CHECK(evaluated == std::vector<std::int64_t>{4, 6, 9, 16, 23});

  // A batch for which too few images are left ends the epoch.
  run({"output.dir=s", "train.steps=3"});
  run({"--resume", "s", "train.batch_size=16", "train.steps=5"});
  CHECK(noted(folder / "s").at(3).at("val_loss").is_number());
  CHECK(read_json(folder / "s/last/checkpoint.json").at("progress").at("epochs_evaluated") == 2);
}

TEST_CASE("train: a run goes on from the checkpoint that is named, and what came later goes") {
  const TemporaryFolder folder(vit);
  const std::vector<std::string> often{"output.save_every_steps=1", "output.keep=100", "train.eval_every_steps=1"};
  std::vector<std::string> whole = train({"output.dir=whole"}), parts = train({"output.dir=parts"});
  for (std::vector<std::string>* const run : {&whole, &parts}) {
    run->insert(run->end(), often.begin(), often.end());
    test::run(folder, *run);
  }
  check_refused(folder, {"train", "--resume", "parts/checkpoints/step-00000099"},
                {"parts has no checkpoint step-00000099; it has step-00000001, step-00000002"});
  for (const char* const from : {"parts/checkpoints/step-00000005", "parts/checkpoints/step-00000002/", "parts/best"}) {
    const CommandResult back = run_command(folder, {"train", "--resume", from, "train.steps=6"});
    INFO(from, back.error);
    REQUIRE(back.code == 0);
    CHECK(!fs::exists(folder / "parts/checkpoints/step-00000007"));
    test::run(folder, {"train", "--resume", "parts", "train.steps=0"});
    check_same_checkpoint(folder, "whole", "parts");
    CHECK(names_in(folder / "whole/checkpoints") == names_in(folder / "parts/checkpoints"));
    CHECK(noted(folder / "whole") == noted(folder / "parts"));
  }
}

TEST_CASE("eval: a run under a budget is evaluated in batches of any size: nothing is held for backward") {
  const TemporaryFolder folder(vit);
  test::run(folder, train({"output.dir=r", "memory={policy: auto, budget: 30KiB, budget_of: saved}",
                           "model.embed_dim=48", "train.steps=3"}));
  const CommandResult evaluated = test::run(folder, {"eval", "r", "train.batch_size=64", "--json", "-"});
  CHECK(evaluated.json().at("val_accuracy") == read_json(folder / "r/summary.json").at("val_accuracy"));
}

TEST_CASE("train: a run that was killed before its first checkpoint, or before the link to it, can be gone on with") {
  const TemporaryFolder folder(vit);
  test::run(folder, train({"output.dir=from", "train.steps=1", "train.seed=3"}));
  REQUIRE(run_command(folder, train({"output.dir=whole", "model.from=from/last", "train.eval_every_steps=3"})).code ==
          0);
  const auto begin = [&] {
    test::run(folder, train({"output.dir=r", "model.from=from/last", "train.steps=3", "train.eval_every_steps=3"}));
    fs::remove(folder / "r/last");
    fs::remove(folder / "r/best");
  };
  begin();
  fs::rename(folder / "r/checkpoints/step-00000003", folder / "r/checkpoints/step-00000003.tmp");
  const CommandResult anew = run_command(folder, {"train", "--resume", "r", "train.steps=0"});
  CHECK(anew.code == 0);
  check_says(anew.out, "r ended before its first checkpoint");
  check_same_checkpoint(folder, "whole", "r");
  CHECK(noted(folder / "whole") == noted(folder / "r"));
  CHECK(!fs::exists(folder / "r/checkpoints/step-00000003.tmp"));

  fs::remove_all(folder / "r");
  begin();
  const CommandResult found = run_command(folder, {"train", "--resume", "r", "train.steps=0"});
  check_says(found.out, "after step 3");
  check_same_checkpoint(folder, "whole", "r");
}

TEST_CASE("train: a run that was killed between its links gets both") {
  const TemporaryFolder folder(vit);
  test::run(folder, train({"output.dir=whole"}));
  test::run(folder, train({"output.dir=r", "train.steps=4"}));
  REQUIRE(fs::read_symlink(folder / "r/best") == "checkpoints/step-00000004");
  fs::remove(folder / "r/best");
  test::run(folder, {"train", "--resume", "r", "train.steps=0"});
  check_same_checkpoint(folder, "whole", "r");
}

}  // namespace lacuna::test
