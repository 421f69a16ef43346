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
    const TemporaryFolder folder;
    write_file(folder / "c.yaml", one.configuration);
    REQUIRE(run_command(folder, train({"train.seed=5", "train.steps=1", "output.dir=from"})).code == 0);
    fs::copy_file(folder / "from/last/model.safetensors", folder / "from.safetensors");
    const auto run = [&](std::vector<std::string> arguments) {
      arguments.insert(arguments.end(), one.overrides.begin(), one.overrides.end());
      const CommandResult result = run_command(folder, train(std::move(arguments)));
      INFO(result.error);
      REQUIRE(result.code == 0);
    };
    // A run that ends by train.steps is evaluated there: so is the whole one.
    const std::string evaluated = "train.eval_every_steps=1";
    run({"output.dir=whole", evaluated});
    run({"output.dir=parts", "train.steps=2", evaluated});
    fs::remove(folder / "from.safetensors");  // a run that goes on has its weights in its checkpoints
    run({"--resume", "parts", "train.steps=5", evaluated});
    REQUIRE(run_command(folder, {"train", "--resume", "parts", "train.steps=0"}).code == 0);
    check_same_checkpoint(folder, "whole", "parts");
    CHECK(lines_in(folder / "parts/metrics.jsonl") == lines_in(folder / "whole/metrics.jsonl"));
    // Nothing is left to do, and the summary stays.
    REQUIRE(run_command(folder, {"train", "--resume", "parts"}).code == 0);
    const nlohmann::json whole = read_json(folder / "whole/summary.json"),
                         again = read_json(folder / "parts/summary.json");
    for (const auto& item : whole.items()) CHECK_MESSAGE(again.contains(item.key()), item.key());
    CHECK(again.at("val_accuracy") == whole.at("val_accuracy"));
    CHECK(again.at("step_seconds").at("median") > 0);
  }
}

TEST_CASE("train: what a run may not change when it goes on is refused, what it may is not") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", vit);
  REQUIRE(run_command(folder, train({"output.dir=r", "train.steps=2", "freeze.freeze=[\"cls_token\"]"})).code == 0);
  const auto resume = [&](std::vector<std::string> rest) {
    rest.insert(rest.begin(), {"train", "--resume", "r"});
    return run_command(folder, std::move(rest));
  };
  for (const std::string change : {"train.seed=2", "data.seed=2", "data.train_size=36"}) {
    const CommandResult result = resume({change});
    INFO(change, result.error);
    CHECK(result.code == 2);
    CHECK(result.error.find("other values of these") != std::string::npos);
    CHECK(result.error.find(change.substr(0, change.find('='))) != std::string::npos);
  }
  const CommandResult other = resume({"optimizer={name: sgd, momentum: 0.9}"});
  CHECK(other.code == 2);
  CHECK(other.error.find(".momentum_buffer: expected f32 [") != std::string::npos);
  CHECK(std::ranges::count(other.error, '\n') < 12);  // the first few, and how many more
  const CommandResult other_type = resume({"optimizer.state=bf16"});
  CHECK(other_type.code == 2);
  CHECK(other_type.error.find("optimizer.state was another when this was written") != std::string::npos);
  const CommandResult overwrite = resume({"--overwrite"});
  CHECK(overwrite.code == 2);
  CHECK(overwrite.error.find("expected one of them") != std::string::npos);

  const CommandResult thawed = resume({"train.steps=3", "freeze.freeze=[]", "optimizer.lr=1e-4", "memory.policy=keep"});
  INFO(thawed.error);
  CHECK(thawed.code == 0);
  CHECK(thawed.out.find("1 parameters were frozen before") != std::string::npos);
  CHECK(resume({"train.steps=4", "freeze.train=[\"head*\"]"}).code == 0);
}

TEST_CASE("train: what stands beside the checkpoints is never taken for one, nor removed") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", vit);
  const std::vector<std::string> begin = train({"output.dir=r", "train.steps=2"});
  REQUIRE(run_command(folder, begin).code == 0);
  // A step of another run, and one that a killed save left.
  fs::copy(folder / "r/checkpoints/step-00000002", folder / "r/checkpoints/step-00000003", fs::copy_options::recursive);
  for (const char* const unfinished : {"step-00000004.tmp", "step-00000004.123.0.tmp"})
    fs::create_directory(folder / "r/checkpoints" / unfinished);
  fs::create_directory(folder / "r/checkpoints/step-mine");
  fs::create_directory(folder / "r/checkpoints/step-00000004.old.tmp");
  write_file(folder / "r/checkpoints/notes.tmp", "mine");
  write_file(folder / "r/summary.json.123.tmp", "{");
  REQUIRE(run_command(folder, {"train", "--resume", "r", "train.steps=3"}).code == 0);
  CHECK(names_in(folder / "r/checkpoints") ==
        std::set<std::string>{"step-00000002", "step-00000003", "step-00000004.old.tmp", "step-mine", "notes.tmp"});
  CHECK(!fs::exists(folder / "r/summary.json.123.tmp"));
  REQUIRE(run_command(folder, train({"output.dir=whole", "train.steps=3"})).code == 0);
  CHECK(read_file(folder / "r/last/model.safetensors") == read_file(folder / "whole/last/model.safetensors"));

  fs::remove(folder / "r/config.yaml");
  const CommandResult orphans = run_command(folder, begin);
  CHECK(orphans.code == 2);
  CHECK(orphans.error.find("holds checkpoints without a config.yaml") != std::string::npos);
  std::vector<std::string> replacing = begin;
  replacing.emplace_back("--overwrite");
  CHECK(run_command(folder, replacing).code == 0);
  CHECK(names_in(folder / "r/checkpoints") ==
        std::set<std::string>{"step-00000002", "step-00000004.old.tmp", "step-mine", "notes.tmp"});
}

TEST_CASE("train: a run that reached its end is left as it is, and says so") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", vit);
  for (const std::string end : {"train.epochs=2", "train.steps=3"}) {
    CAPTURE(end);
    REQUIRE(run_command(folder, train({"output.dir=r", end, "--overwrite"})).code == 0);
    const std::string summary = read_file(folder / "r/summary.json"), metrics = read_file(folder / "r/metrics.jsonl"),
                      configuration = read_file(folder / "r/config.yaml");
    const CommandResult again = run_command(folder, {"train", "--resume", "r", "optimizer.lr=0.5"});
    CHECK(again.code == 0);
    CHECK(again.out.find("nothing to do") != std::string::npos);
    CHECK(again.out.find("epoch") == again.out.find("epochs of 4 steps"));
    CHECK(again.out.find("larger " + end.substr(0, end.find('='))) != std::string::npos);
    CHECK(read_file(folder / "r/summary.json") == summary);
    CHECK(read_file(folder / "r/metrics.jsonl") == metrics);
    CHECK(read_file(folder / "r/config.yaml") == configuration);
    const CommandResult longer = run_command(folder, {"train", "--resume", "r", "train.steps=0", "train.epochs=3"});
    CHECK(longer.code == 0);
    CHECK(longer.out.find("epoch 3/3: ") != std::string::npos);
  }
  // In batches of another size it has gone through its epochs in other steps than these would take.
  REQUIRE(run_command(folder, {"train", "--resume", "r", "train.epochs=4", "train.batch_size=2"}).code == 0);
  const CommandResult again = run_command(folder, {"train", "--resume", "r"});
  CHECK(again.out.find("larger train.epochs") != std::string::npos);
  const CommandResult moved = run_command(folder, {"train", "--resume", "r", "output={dir: other}"});
  CHECK(moved.code == 2);
  CHECK(moved.error.find("stays in its folder, r") != std::string::npos);
  CHECK(run_command(folder, {"train", "--resume", "r", "output.dir=./r"}).code == 0);  // where it is
}

TEST_CASE("train: a run that goes on with no step left to take has in its summary what the steps before it took") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", vit);
  for (const auto& [steps, end] : {std::pair{4U, std::string("train.epochs=1")}, {3U, "train.steps=3"}}) {
    CAPTURE(end);
    REQUIRE(run_command(folder, train({"output.dir=whole", end, "schedule.warmup_epochs=0", "--overwrite"})).code == 0);
    const nlohmann::json whole = read_json(folder / "whole/summary.json");
    REQUIRE(whole.at("memory").at("saved") > 0);
    const auto check_resumed = [&](const std::vector<std::string>& rest) {
      std::vector<std::string> arguments{"train", "--resume", "r"};
      arguments.insert(arguments.end(), rest.begin(), rest.end());
      REQUIRE(run_command(folder, arguments).code == 0);
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
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", vit);
  REQUIRE(run_command(folder, train({"output.dir=r", "train.steps=4", "output.save_every_steps=1", "output.keep=9"}))
              .code == 0);
  REQUIRE(run_command(folder, {"train", "--resume", "r/checkpoints/step-00000002", "train.steps=2"}).code == 0);
  const nlohmann::json summary = read_json(folder / "r/summary.json");
  CHECK(summary.at("steps") == 2);
  CHECK(summary.at("memory").at("saved").is_null());
  CHECK(summary.at("saved_by_path").empty());
  CHECK(summary.at("step_seconds").is_null());
  CHECK(summary.at("samples_per_second").is_null());
  CHECK(run_command(folder, {"report", "r"}).code == 0);
}

TEST_CASE("train: a run within an epoch does not go on to an end before it") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", vit);
  REQUIRE(run_command(folder, train({"output.dir=r", "train.epochs=3", "train.steps=6"})).code == 0);
  const std::string summary = read_file(folder / "r/summary.json");
  const CommandResult refused = run_command(folder, {"train", "--resume", "r", "train.epochs=1"});
  CHECK(refused.code == 2);
  CHECK(refused.error.find("the run is within epoch 2, and train.epochs is 1; give 2 or more") != std::string::npos);
  CHECK(read_file(folder / "r/summary.json") == summary);
  CHECK(run_command(folder, {"train", "--resume", "r", "train.epochs=2", "train.steps=0"}).code == 0);
}

TEST_CASE("train: a run killed at any moment can be gone on with") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", vit);
  // A rate that does not know how long the run is; and steps enough that a late signal comes before the last one.
  REQUIRE(run_command(folder, train({"output.dir=whole", "train.epochs=20", "schedule.name=constant"})).code == 0);
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

TEST_CASE("train: 40 steps broken at every eighth give the bits of 40 unbroken ones") {
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
    const TemporaryFolder folder;
    write_file(folder / "c.yaml", vit);
    const auto run = [&](std::vector<std::string> rest) {
      // Five steps an epoch: the breaks, each with an evaluation, fall everywhere within one.
      rest.insert(rest.end(), {"train.epochs=8", "train.batch_size=7", "train.accumulate=1", "optimizer.lr=1e-2",
                               "train.eval_every_steps=8", "optimizer.name=" + c.optimizer, "memory=" + c.policy});
      rest.insert(rest.end(), c.more.begin(), c.more.end());
      const CommandResult result = run_command(folder, train(std::move(rest)));
      INFO(result.error);
      REQUIRE(result.code == 0);
    };
    run({"output.dir=whole"});
    run({"output.dir=parts", "train.steps=8"});
    for (int step = 16; step <= 40; step += 8) run({"--resume", "parts", "train.steps=" + std::to_string(step)});
    CHECK(read_json(folder / "whole/last/checkpoint.json").at("progress").at("step") == 40);
    check_same_checkpoint(folder, "whole", "parts");
    CHECK(noted(folder / "whole") == noted(folder / "parts"));
  }
}

TEST_CASE("train: the average of weights is saved, evaluated, and may come and go on resume") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", vit);
  const std::string average = "average/model.safetensors";
  const auto run = [&](const std::vector<std::string>& rest) {
    const CommandResult result = run_command(folder, rest);
    INFO(result.error);
    REQUIRE(result.code == 0);
    return result;
  };
  run(train({"output.dir=r", "train.ema_decay=0.5", "train.epochs=1"}));
  CHECK(read_file(folder / "r/last" / average) != read_file(folder / "r/last/model.safetensors"));
  const nlohmann::json summary = read_json(folder / "r/summary.json");
  const nlohmann::json evaluated = run({"eval", "r", "--json", "-"}).json();
  CHECK(evaluated.at("val_loss") == summary.at("val_loss"));
  CHECK(evaluated.at("weights").get<std::string>().ends_with(average));
  CHECK(run({"eval", "r/last", "--json", "-"}).json().at("val_loss") == summary.at("val_loss"));
  CHECK(run_command(folder, {"eval", "r/checkpoints/step-00000001"}).error.find("has no checkpoint") !=
        std::string::npos);
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
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", vit);
  const std::vector<std::string> one_rate{"train.epochs=4", "schedule={name: step, milestones: [1, 2, 3], gamma: 0.5}"};
  const auto run = [&](std::vector<std::string> rest) {
    rest.insert(rest.end(), one_rate.begin(), one_rate.end());
    const CommandResult result = run_command(folder, train(std::move(rest)));
    INFO(result.error);
    REQUIRE(result.code == 0);
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
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", vit);
  const std::vector<std::string> often{"output.save_every_steps=1", "output.keep=100", "train.eval_every_steps=1"};
  std::vector<std::string> whole = train({"output.dir=whole"}), parts = train({"output.dir=parts"});
  for (std::vector<std::string>* const run : {&whole, &parts}) {
    run->insert(run->end(), often.begin(), often.end());
    REQUIRE(run_command(folder, *run).code == 0);
  }
  const CommandResult missing = run_command(folder, {"train", "--resume", "parts/checkpoints/step-00000099"});
  CHECK(missing.code == 2);
  CHECK(missing.error.find("parts has no checkpoint step-00000099; it has step-00000001, step-00000002") !=
        std::string::npos);
  for (const char* const from : {"parts/checkpoints/step-00000005", "parts/checkpoints/step-00000002/", "parts/best"}) {
    const CommandResult back = run_command(folder, {"train", "--resume", from, "train.steps=6"});
    INFO(from, back.error);
    REQUIRE(back.code == 0);
    CHECK(!fs::exists(folder / "parts/checkpoints/step-00000007"));
    REQUIRE(run_command(folder, {"train", "--resume", "parts", "train.steps=0"}).code == 0);
    check_same_checkpoint(folder, "whole", "parts");
    CHECK(names_in(folder / "whole/checkpoints") == names_in(folder / "parts/checkpoints"));
    CHECK(noted(folder / "whole") == noted(folder / "parts"));
  }
}

TEST_CASE("eval: a run under a budget is evaluated in batches of any size: nothing is held for backward") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", vit);
  REQUIRE(run_command(folder, train({"output.dir=r", "memory={policy: auto, budget: 30KiB, budget_of: saved}",
                                     "model.embed_dim=48", "train.steps=3"}))
              .code == 0);
  const CommandResult evaluated = run_command(folder, {"eval", "r", "train.batch_size=64", "--json", "-"});
  INFO(evaluated.error);
  REQUIRE(evaluated.code == 0);
  CHECK(evaluated.json().at("val_accuracy") == read_json(folder / "r/summary.json").at("val_accuracy"));
}

TEST_CASE("train: a run that was killed before its first checkpoint, or before the link to it, can be gone on with") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", vit);
  REQUIRE(run_command(folder, train({"output.dir=from", "train.steps=1", "train.seed=3"})).code == 0);
  REQUIRE(run_command(folder, train({"output.dir=whole", "model.from=from/last", "train.eval_every_steps=3"})).code ==
          0);
  const auto begin = [&] {
    REQUIRE(run_command(folder,
                        train({"output.dir=r", "model.from=from/last", "train.steps=3", "train.eval_every_steps=3"}))
                .code == 0);
    fs::remove(folder / "r/last");
    fs::remove(folder / "r/best");
  };
  begin();
  fs::rename(folder / "r/checkpoints/step-00000003", folder / "r/checkpoints/step-00000003.tmp");
  const CommandResult anew = run_command(folder, {"train", "--resume", "r", "train.steps=0"});
  CHECK(anew.code == 0);
  CHECK(anew.out.find("r ended before its first checkpoint") != std::string::npos);
  check_same_checkpoint(folder, "whole", "r");
  CHECK(noted(folder / "whole") == noted(folder / "r"));
  CHECK(!fs::exists(folder / "r/checkpoints/step-00000003.tmp"));

  fs::remove_all(folder / "r");
  begin();
  const CommandResult found = run_command(folder, {"train", "--resume", "r", "train.steps=0"});
  CHECK(found.out.find("after step 3") != std::string::npos);
  check_same_checkpoint(folder, "whole", "r");
}

TEST_CASE("train: a run that was killed between its links gets both") {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", vit);
  REQUIRE(run_command(folder, train({"output.dir=whole"})).code == 0);
  REQUIRE(run_command(folder, train({"output.dir=r", "train.steps=4"})).code == 0);
  REQUIRE(fs::read_symlink(folder / "r/best") == "checkpoints/step-00000004");
  fs::remove(folder / "r/best");
  REQUIRE(run_command(folder, {"train", "--resume", "r", "train.steps=0"}).code == 0);
  check_same_checkpoint(folder, "whole", "r");
}

}  // namespace lacuna::test
