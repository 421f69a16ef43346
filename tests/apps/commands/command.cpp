// The built command from end to end, on models and data small enough for a test.
#include "core/parallel.h"
#include "core/sanitizer.h"
#include "models/io/safetensors.h"
#include "tests/apps/train/train_run.h"

#include <fmt/core.h>

namespace lacuna::test {

TEST_CASE("train: writes a run folder with configuration, metrics, summary and checkpoints") {
  const TemporaryFolder folder(vit);
  const CommandResult result = test::run(folder, train({"--json", "s.json"}));
  check_says(result.out, "epoch 3/3: train loss");
  const nlohmann::json summary = read_json(folder / "runs/c/summary.json");
  CHECK(summary == read_json(folder / "s.json"));
  for (const char* const key : {"model", "device", "precision", "batch_size", "threads", "policy", "parameters",
                                "process_peak", "samples_per_second", "train_loss", "val_loss", "val_accuracy"})
    CHECK_MESSAGE(summary.contains(key), key);
  for (const char* const key :
       {"parameters", "gradients", "optimizer", "saved", "transient", "workspace", "data", "peak"})
    CHECK_MESSAGE(summary.at("memory").contains(key), key);
  for (const char* const key : {"min", "median", "max"}) CHECK(summary.at("step_seconds").at(key) > 0);
  CHECK(summary.at("steps") == 12);
  CHECK(summary.at("epochs") == 3);
  CHECK(lines_in(folder / "runs/c/metrics.jsonl") == 12 + 3);
  CHECK(fs::exists(folder / "runs/c/last/checkpoint.json"));
  CHECK(fs::exists(folder / "runs/c/best/model.safetensors"));
  CHECK(std::distance(fs::directory_iterator(folder / "runs/c/checkpoints"), {}) <= 3);

  const CommandResult evaluated = test::run(folder, {"eval", "runs/c", "--json", "-"});
  const nlohmann::json place = read_json(folder / "runs/c/best/checkpoint.json");
  CHECK(evaluated.json().at("val_accuracy") == place.at("progress").at("best").at("metrics").at("accuracy"));

  check_refused(folder, train({}), {"runs/c holds a run already"});
  CHECK(run_command(folder, train({"--overwrite", "train.steps=1"})).code == 0);
  CHECK(read_json(folder / "runs/c/summary.json").at("steps") == 1);
}

TEST_CASE("train: two steps, of which the first warms up, tell no rate") {
  const TemporaryFolder folder(vit);
  for (const int steps : {2, 3}) {
    const nlohmann::json summary =
        run_command(folder, train({fmt::format("train.steps={}", steps), "--overwrite", "--json", "-"})).json();
    CHECK(summary.at("samples_per_second").is_number() == (steps > 2));
    CHECK(summary.at("step_seconds").at("median") > 0);
  }
}

TEST_CASE("keys: of a section, or one alone") {
  const TemporaryFolder folder;
  const nlohmann::json one = run_command(folder, {"keys", "data.broken", "--json", "-"}).json();
  REQUIRE(one.size() == 1);
  CHECK(one.at(0).at("key") == "data.broken");
  CHECK(run_command(folder, {"keys", "data", "--json", "-"}).json().size() > 1);
  CHECK(run_command(folder, {"keys", "data.nothing"}).code == 2);
  CHECK(run_command(folder, {"keys", "lr", "--json", "-"}).json().at(0).at("key") == "optimizer.lr");
  check_refused(folder, {"keys", "learning_rate"}, {"\"lr\""});
  check_refused(folder, {"train", "--model", "resnet20"}, {"model=VALUE"});
}

TEST_CASE("train: a classifier that starts anew is announced") {
  const TemporaryFolder folder(vit);
  test::run(folder, train({"output.dir=one", "train.steps=1", "model.num_classes=12"}));
  const CommandResult result = run_command(folder, train({"model.from=one/last", "train.steps=1"}));
  CHECK(result.code == 0);
  check_says(result.out, "12 classes in one/last, 10 here");
}

TEST_CASE("train: the best checkpoint is kept without any between") {
  const TemporaryFolder folder(vit);
  test::run(folder, train({"output.dir=r", "output.save_every=0"}));
  const nlohmann::json last = read_json(folder / "r/last/checkpoint.json").at("progress"),
                       best = read_json(folder / "r/best/checkpoint.json").at("progress");
  CHECK(best.at("last") == last.at("best"));
}

TEST_CASE("train: a loss that is not finite names step, layer and the largest values") {
  const TemporaryFolder folder(vit);
  const auto diverge = [&](const std::string& lr, std::vector<std::string> rest) {
    rest.insert(rest.end(), {"optimizer={name: sgd, lr: " + lr + "}", "schedule={name: constant}", "--overwrite"});
    const CommandResult result = run_command(folder, train(std::move(rest)));
    CHECK(result.code == 1);
    CHECK(result.error.starts_with("lacuna: step "));
    check_says(result.error, "The first value that is not finite came out of ");
    check_says(result.error, "The largest values until then:\n");
    return result.error;
  };
  const std::string forward = diverge("1e30", {"train.clip_norm=0"});
  check_says(forward, "the loss is ");
  check_says(forward, "(forward)");
  check_says(forward, " in blocks.");
  const std::string recomputed = diverge("1e30", {"train.clip_norm=0", "memory.recompute=[\"blocks.*\"]"});
  check_says(recomputed, " in blocks.");

  // Zeros times large weights: what comes out is finite, its gradient is not.
  test::run(folder, train({"train.steps=1", "output.dir=one"}));
  std::vector<NamedTensor> weights;
  const SafetensorsFile file(folder / "one/last/model.safetensors");
  for (const SafetensorsEntry& entry : file.entries()) {
    weights.emplace_back(entry.name, file.load(entry.name));
    if (entry.name.starts_with("blocks.1.mlp.fc1.")) weights.back().second.fill(0);
    if (entry.name == "blocks.1.mlp.fc2.weight") weights.back().second.fill(3e38);
    if (entry.name == "head.weight")
      for (std::int64_t i = 0; i < weights.back().second.count(); ++i) weights.back().second.data<float>()[i] *= 1e10F;
  }
  write_safetensors(folder / "large.safetensors", weights);
  for (const char* const clip : {"train.clip_norm=0", "train.clip_norm=1"}) {
    const std::string backward = diverge("1e-3", {"model.from=large.safetensors", "model.drop_path_rate=0", clip});
    INFO(backward);
    CHECK(backward.starts_with("lacuna: step 1: the loss is "));
    check_says(backward, "but the gradient of ");
    check_says(backward, "came out of linear in blocks.1.mlp.fc2 (backward)");
  }
}

TEST_CASE("command: wrong input ends with 2 and leaves nothing behind") {
  const TemporaryFolder folder(vit);
  test::run(folder, train({"model.depth=1", "train.steps=1", "output.dir=one"}));
  fs::copy_file(folder / "one/last/model.safetensors", folder / "other.safetensors");
  check_refusals(folder, train({}),
                 {{"train.epoch=3", "train", "\"epoch\"|\"epochs\""},
                  {"model.patch_size=3", "`patch_size` 3", "`image_size` 8"},
                  {"model.num_heads=3", "`num_heads` 3", "`embed_dim` 8"},
                  {"train.batch_size=64", "train.batch_size", "64|shapes|35"},
                  {"train.batch_size=64\nmemory.policy=auto\nmemory.budget=1KiB", "train.batch_size", "64"},
                  {"train.batch_size=2000000000\ntrain.accumulate=1", "train.batch_size", "2000000000"},
                  {"train.accumulate=3", "train.accumulate", "divisor|train.batch_size|8|3"},
                  {"freeze.train=[\"hed*\"]", "`hed*`"},
                  {"data.name=cifar10\ndata.path=nowhere", "nowhere"},
                  {"model.from=nowhere.safetensors", "nowhere.safetensors"},
                  {"schedule.warmup_epochs=7", "schedule", "warm-up"},
                  {"train.device=meta", "train.device"},
                  {"model.in_channels=1", "model.in_channels", "1|shapes|3"},
                  {"train.batch_size=1e15", "train.batch_size"},
                  {"--json\nnowhere/s.json", "nowhere", "no folder"},
                  {"--json\n.", ".", "folder"},
                  {"model.num_classes=3", "model.num_classes", "3|shapes|10 classes"},
                  {"train.batch_size=20000000\ndata.train_size=20000000\nmodel.embed_dim=4096", "memory", "20000000"},
                  {"model.from=other.safetensors", "blocks.1"},
                  {"--jsn", "--jsn", "--json"}});
  for (const std::string command : {"train", "plan", "bench", "explain"})
    check_refusals(folder, {command, "-c", "c.yaml"}, {{"freeze.freeze=[\"*\"]", "freeze"}});
  for (const std::string policy : {"fixed", "mesa", "adaptive", "auto"})
    check_refusals(folder, {"verify", "nowhere", "--policy"}, {{policy, "--policy", policy}});
  check_refusals(folder, {},
                 {{"plan\n-c\nc.yaml\ntrain.batch_size=33554432\ntrain.accumulate=1\nmodel.image_size=4096\n"
                   "model.patch_size=4096",
                   "memory", "any machine"},
                  {"plan\n-c\nc.yaml\ndata.image_size=8\ntrain.batch_size=0", "train.batch_size"},
                  {"train", "-c CONFIG"},
                  {"train\n-c", "train"},
                  {"train\n--resume\nnowhere", "nowhere", "exist"},
                  {"train\n-c\nnowhere.yaml", "nowhere.yaml", "no such file"},
                  {"train\n-c\n.", ".", "folder"},
                  {"eval", "run folder"},
                  {"eval\none\nmodel.from=other.safetensors", "weights", "run"},
                  {"eval\none\ntrain.device=meta", "meta"},
                  {"verify\nc.yaml", "c.yaml"},
                  {"verify\nnowhere", "nowhere", "open"},
                  {"trian", "\"trian\"", "\"train\""}});
}

TEST_CASE("command: memory of a step is the same to the byte in plan, bench and train") {
  const TemporaryFolder folder(vit);
  const std::vector<std::vector<std::string>> cases{
      {},
      {"data.workers=3", "train.accumulate=2", "train.ema_decay=0.9"},
      {"memory={policy: fixed, bits: 2}", "optimizer={name: sgd, momentum: 0.9}"},
      {"optimizer.in_backward=true", "train.precision=bf16", "memory.recompute=[\"blocks.*\"]"},
      {"model={name: resnet20, image_size: 8}", "data.val_size=2000"}};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::string run = "output.dir=r" + std::to_string(i);
    const auto memory = [&](std::vector<std::string> words) {
      words.insert(words.end(), {"-c", "c.yaml", "train.batch_size=16", "data.train_size=64", run, "--json", "-"});
      words.insert(words.end(), cases[i].begin(), cases[i].end());
      const CommandResult result = test::run(folder, words);
      return result.json();
    };
    const nlohmann::json planned = memory({"plan"}), trained = memory({"train"});
    CHECK(planned.at("memory") == memory({"bench", "--steps", "2"}).at("memory"));
    CHECK(planned.at("memory") == trained.at("memory"));
    CHECK(planned.at("memory").at("saved") == memory({"explain"}).at("saved"));
    CHECK(planned.at("peak_in_training") >= trained.at("peak_in_training"));
    CHECK(trained.at("peak_in_training") > trained.at("memory").at("peak"));
    const std::string metrics = read_file(folder / ("r" + std::to_string(i)) / "metrics.jsonl");
    check_says(metrics, fmt::format("\"peak\":{}", planned.at("memory").at("peak").get<std::int64_t>()));
  }
}

TEST_CASE("command: the gradient of the images is planned and timed, where nothing else is trained too") {
  const TemporaryFolder folder(vit);
  for (const std::string frozen : {"freeze={}", "freeze={freeze: [\"*\"]}"}) {
    const auto memory = [&](std::vector<std::string> words) {
      words.insert(words.end(), {"-c", "c.yaml", frozen, "--json", "-"});
      const CommandResult result = test::run(folder, words);
      return result.json().at("memory");
    };
    const nlohmann::json planned = memory({"plan", "--image-gradient"});
    CHECK(planned == memory({"bench", "--image-gradient", "--steps", "2"}));
    CHECK(planned.at("gradients") > 0);
  }
  CHECK(run_command(folder, {"bench", "-c", "c.yaml", "freeze={freeze: [\"*\"]}"}).code == 2);
}

TEST_CASE("command: plan and bench share the documented keys") {
  const TemporaryFolder folder(vit);
  const nlohmann::json plan = run_command(folder, {"plan", "-c", "c.yaml", "--json", "-"}).json();
  const nlohmann::json bench = run_command(folder, {"bench", "-c", "c.yaml", "--steps", "1", "--json", "-"}).json();
  const std::set<std::string> measured{"process_peak", "samples_per_second", "step_seconds"};
  for (const std::string key :
       {"model", "device", "precision", "batch_size", "threads", "policy", "parameters", "trainable_parameters",
        "memory", "saved_by_path", "process_peak", "samples_per_second", "step_seconds"}) {
    CHECK_MESSAGE(plan.contains(key) != measured.contains(key), key);
    CHECK_MESSAGE(bench.contains(key), key);
  }
  for (const std::string key :
       {"parameters", "gradients", "optimizer", "saved", "transient", "workspace", "data", "peak"}) {
    CHECK_MESSAGE(plan.at("memory").at(key).is_number_integer(), key);
    CHECK_MESSAGE(bench.at("memory").at(key).is_number_integer(), key);
  }
  CHECK(plan.at("peak_in_training") > plan.at("memory").at("peak"));  // batches are prepared ahead
  CHECK(!bench.contains("peak_in_training"));
  CHECK(plan.at("device") == "cpu");
  CHECK(bench.at("device") == "cpu");
  for (const char* const key : {"min", "median", "max"}) CHECK(bench.at("step_seconds").at(key) > 0);
  const nlohmann::json both =
      run_command(folder, {"plan", "-c", "c.yaml", "--policies", "keep,exact", "--json", "-"}).json();
  // An argument after the list is an override, not a policy.
  CHECK(run_command(folder, {"plan", "-c", "c.yaml", "--policies", "keep,exact", "train.batch_size=4", "--json", "-"})
            .json()[1]["batch_size"] == 4);
  REQUIRE(both.size() == 2);
  CHECK(both[0].at("memory").at("saved") > both[1].at("memory").at("saved"));
  const std::string bits = "exact,fixed:8,fixed,fixed:2,auto:100MiB";
  const CommandResult table = run_command(folder, {"plan", "-c", "c.yaml", "--policies", bits, "train.batch_size=32"});
  for (const char* const title : {" exact ", " fixed:8 ", " fixed:4 ", " fixed:2 ", " auto:100MiB\n"})
    CHECK_MESSAGE(table.out.find(title) != std::string::npos, title);
  const nlohmann::json coded =
      run_command(folder, {"plan", "-c", "c.yaml", "--policies", bits, "train.batch_size=32", "--json", "-"}).json();
  for (std::size_t i = 1; i < 4; ++i) CHECK(coded[i - 1].at("memory").at("saved") > coded[i].at("memory").at("saved"));
  CHECK(coded[3].at("choice") == "fixed:2");
  for (const nlohmann::json& one : coded) {
    CHECK(one.at("at_peak").at("saved") <= one.at("memory").at("peak"));
    check_says(table.out, "peak in " + one.at("at_peak").at("taken_for").get<std::string>());
  }
  CHECK(coded[0].at("at_peak").at("saved") > coded[3].at("at_peak").at("saved"));
  check_says(table.out, "everything fits as it is");
  check_says(table.out, "\nauto:100MiB: budget of 100.00 MiB in all: ");
  check_says(table.out, "\nsaved at peak ");
  // Holders that differ in the number of their block alone share a line.
  check_says(run_command(folder, {"plan", "-c", "c.yaml"}).out, "blocks.*");
  // Only what the colon sets is another than the file says.
  const auto saved_of = [&](const std::string& memory, const std::string& choice) {
    return run_command(folder, {"plan", "-c", "c.yaml", "train.batch_size=32", "memory=" + memory, "--policies", choice,
                                "--json", "-"})
        .json()
        .at("memory")
        .at("saved");
  };
  CHECK(saved_of("{policy: fixed, bits: 8, group_size: 64}", "fixed:4") ==
        saved_of("{policy: fixed, bits: 4, group_size: 64}", "fixed"));
  CHECK(saved_of("{policy: fixed, bits: 4, group_size: 64}", "fixed") != saved_of("{policy: fixed, bits: 4}", "fixed"));
  CHECK(coded[4].at("memory").at("saved") == coded[0].at("memory").at("saved"));  // everything fits
  const std::string refined =
      "memory={policy: exact, recompute: [blocks.0], "
      "rules: [{op: layer_norm, hold: keep}, {path: blocks.1, hold: recompute}]}";
  for (const char* const policies : {"exact", "keep,fixed"})
    check_says(run_command(folder, {"plan", "-c", "c.yaml", refined, "--policies", policies}).out,
               " are trained\nrecomputed: blocks.0, blocks.1; 2 rules\nmemory ");
  CHECK(run_command(folder, {"plan", "-c", "c.yaml", "--policies", "exact, fixed:2 ", "--json", "-"})
            .json()[1]
            .at("choice") == "fixed:2");
  for (const char* const gap : {" , mesa", "exact,,mesa", "exact,", ""})
    CHECK(run_command(folder, {"plan", "-c", "c.yaml", "--policies", gap}).error ==
          "lacuna: --policies: expected names between commas, as exact,mesa,fixed:4\n");
  // All that is wrong is said at once.
  const CommandResult wrong =
      run_command(folder, {"plan", "-c", "c.yaml", "--policies", "keep,fixed:few,exact:4,some"});
  CHECK(wrong.code == 2);
  check_says(wrong.error, "--policies fixed:few: expected bits behind fixed:, got \"few\"\n");
  check_says(wrong.error, "--policies exact:4: the policy exact has no bits: expected exact alone");
  check_says(wrong.error, "--policies some: unknown memory policy some");
  CHECK(wrong.out.empty());
  // Feasible plans are shown even if another budget is too small.
  const CommandResult one = run_command(folder, {"plan", "-c", "c.yaml", "--policies", "exact,auto:1KiB,mesa"});
  CHECK(one.code == 2);
  check_says(one.error, "--policies auto:1KiB: memory.budget: 1.00 KiB do not suffice");
  check_says(one.out, "  exact ");
  check_says(one.out, " mesa:8");
  const CommandResult for_programs =
      run_command(folder, {"plan", "-c", "c.yaml", "--policies", "exact,auto:1KiB", "--json", "-"});
  CHECK(for_programs.code == 2);
  CHECK(for_programs.out.empty());
  // A recipe's own budget is planned only where it is asked for.
  const auto under_budget = [&](const char* const policies) {
    return run_command(folder, {"plan", "-c", "c.yaml", "memory={policy: auto, budget: 1KiB}", "--policies", policies});
  };
  CHECK(under_budget("exact,mesa").code == 0);
  CHECK(under_budget("exact,auto:100MiB").code == 0);
  const CommandResult asked = under_budget("exact,auto");
  CHECK(asked.code == 2);
  check_says(asked.error, "--policies auto: memory.budget: 1.00 KiB do not suffice");
}

TEST_CASE("command: what measuring takes is in every throughput") {
  const TemporaryFolder folder(vit);
  std::vector<std::string> overrides{"memory={policy: adaptive, bits: 3, measure_every: 6, by_draws: true}",
                                     "train.accumulate=2", "train.batch_size=4"};
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), overrides.begin(), overrides.end());
    const CommandResult result = test::run(folder, std::move(arguments));
    return result;
  };
  const auto check = [](const nlohmann::json& figures) {
    const double median = figures.at("step_seconds").at("median"),
                 measuring = figures.at("step_seconds").at("measuring");
    CHECK(measuring > 0);
    CHECK(figures.at("samples_per_second").get<double>() == doctest::Approx(4 / (median + measuring * 2 / 6)));
  };
  check(run({"bench", "-c", "c.yaml", "--steps", "4", "--json", "-"}).json());
  run(train({"train.steps=7"}));
  check(read_json(folder / "runs/c/summary.json"));
  // A process that goes on and ends before the next measurement counts the last one.
  overrides.front() = "memory={policy: adaptive, bits: 3, measure_every: 12, by_draws: true}";
  run(train({"train.steps=7", "output.dir=r"}));
  run({"train", "--resume", "r", "train.steps=11"});
  const nlohmann::json figures = read_json(folder / "r/summary.json");
  const double median = figures.at("step_seconds").at("median"), measuring = figures.at("step_seconds").at("measuring");
  CHECK(measuring > 0);
  CHECK(figures.at("samples_per_second").get<double>() == doctest::Approx(4 / (median + measuring * 2 / 12)));
  // A record that is damaged keeps nobody from going on with -c, and one of another policy tells nothing of this one.
  write_file(folder / "r/config.yaml", "nonsense: [");
  run({"train", "--resume", "r", "-c", "c.yaml", "train.steps=12"});
  for (const char* const steps : {"train.steps=15", "train.steps=18"}) {
    overrides.front() = "memory={policy: fixed, bits: 3}";
    run({"train", "--resume", "r", steps});
    CHECK(!read_json(folder / "r/summary.json").at("step_seconds").contains("measuring"));
  }
}

TEST_CASE("train: frozen weights that nothing was loaded into are warned of") {
  const TemporaryFolder folder(vit);
  const std::string warning = "lacuna: warning: frozen parameters have random weights: model.from is not set\n";
  CHECK(run_command(folder, train({"train.steps=1", "freeze.train=[\"head*\"]", "output.dir=a"})).error == warning);
  CHECK(run_command(folder, train({"train.steps=1", "freeze.train=[\"*\"]", "output.dir=b"})).error.empty());
  CHECK(run_command(folder, train({"train.steps=1", "freeze.train=[\"head*\"]", "model.from=a/last", "output.dir=c"}))
            .error.empty());
  CHECK(run_command(folder, {"train", "--resume", "a", "train.steps=2"}).error.empty());
}

TEST_CASE("command: more threads than processors are warned of, once, by what computes") {
  const TemporaryFolder folder(vit);
  const int many = processors() + 1;
  const std::string threads = fmt::format("train.threads={}", many);
  const std::string warning =
      fmt::format("lacuna: warning: {} threads are to compute on {} processors: ", many, many - 1);
  const auto error_of = [&](std::vector<std::string> arguments) {
    const CommandResult result = run_command(folder, std::move(arguments));
    INFO(result.error);
    CHECK(result.code == 0);
    return result.error;
  };
  const auto warned_once = [&](const std::string& error) {
    INFO(error);
    CHECK(error.starts_with(warning));
    CHECK(std::ranges::count(error, '\n') == 1);
  };
  warned_once(error_of(train({threads, "train.steps=1"})));
  warned_once(error_of({"train", "--resume", "runs/c", "train.steps=2"}));
  warned_once(error_of({"eval", "runs/c"}));
  warned_once(error_of({"bench", "-c", "c.yaml", "--steps", "1", threads}));
  CHECK(error_of({"eval", "runs/c", fmt::format("train.threads={}", many - 1)}).empty());
  CHECK(error_of({"plan", "-c", "c.yaml", threads}).empty());
  // The choice of `auto` needs a computed step here.
  warned_once(error_of({"plan", "-c", "c.yaml", threads,
                        "model={name: vit, image_size: 32, patch_size: 4, embed_dim: 64, depth: 2, num_heads: 4}",
                        "train.batch_size=16", "memory={policy: auto, budget: 300KiB, budget_of: saved}"}));
  const CommandResult verified =
      run_program(folder, "/usr/bin/env",
                  {fmt::format("OMP_NUM_THREADS={}", many), LACUNA_BINARY_DIR "/bin/lacuna", "verify", "nowhere"});
  CHECK(verified.error.starts_with(warning));
}

TEST_CASE("command: bench --profile times the loader too") {
  const TemporaryFolder folder(vit);
  const nlohmann::json profiled =
      run_command(folder, {"bench", "-c", "c.yaml", "--steps", "1", "--profile", "--json", "-"}).json();
  CHECK(profiled.at("loader").at("cpu_seconds_per_batch").get<double>() > 0);
}

TEST_CASE("command: --json - gives JSON and nothing else") {
  const TemporaryFolder folder(vit);
  const std::vector<std::vector<std::string>> commands{{"train", "-c", "c.yaml", "train.steps=1"},
                                                       {"plan", "-c", "c.yaml"},
                                                       {"explain", "-c", "c.yaml"},
                                                       {"bench", "-c", "c.yaml", "--steps", "1", "--profile"},
                                                       {"models"},
                                                       {"doctor"}};
  for (std::vector<std::string> arguments : commands) {
    const std::string name = arguments.front();
    arguments.insert(arguments.end(), {"--json", "-"});
    const CommandResult result = run_command(folder, std::move(arguments));
    INFO(name, ": ", result.error);
    CHECK(result.code == 0);
    CHECK(nlohmann::json::accept(result.out));
    CHECK(result.error.empty());
  }
}

TEST_CASE("train: saves to the byte what plan says, its batch included") {
  const TemporaryFolder folder(
      "model: {name: vit, image_size: 32, patch_size: 4, embed_dim: 64, depth: 2, num_heads: 4}\n"
      "data: {name: shapes, train_size: 64, val_size: 8}\ntrain: {batch_size: 16, steps: 2, threads: 1}\n");
  for (const char* const memory : {"{policy: exact}", "{policy: fixed, bits: 3}", "{policy: mesa}",
                                   "{policy: auto, budget: 300KiB, budget_of: saved}"})
    for (const char* const parts : {"train.accumulate=1", "train.accumulate=2"}) {
      const std::string how = fmt::format("memory={}", memory);
      const CommandResult trained =
          run_command(folder, {"train", "-c", "c.yaml", how, parts, "--overwrite", "--json", "-"});
      const CommandResult planned = run_command(folder, {"plan", "-c", "c.yaml", how, parts, "--json", "-"});
      INFO(how, " ", std::string(parts), "\n", trained.error, planned.error);
      REQUIRE(trained.code == 0);
      CHECK(trained.json().at("memory").at("saved") == planned.json().at("memory").at("saved"));
      CHECK(trained.json().at("saved_by_path").contains("images") == (std::string_view(parts).back() == '1'));
    }
}

TEST_CASE("command: a reader that has enough ends it silently, a full disk does not") {
  const TemporaryFolder folder(vit);
  for (const std::string rest : {"", " --json -"}) {
    const std::string lacuna = LACUNA_BINARY_DIR "/bin/lacuna explain -c c.yaml" + rest;
    const CommandResult closed =
        run_program(folder, "/bin/bash", {"-c", lacuna + " | head -c 0; echo ${PIPESTATUS[0]}"});
    CHECK(closed.out == "0\n");
    CHECK(closed.error.empty());
    const CommandResult full = run_program(folder, "/bin/bash", {"-c", lacuna + " > /dev/full"});
    CHECK(full.code == 2);
    CHECK(full.error == "lacuna: cannot write to standard output: No space left on device\n");
  }
}

TEST_CASE("command: a configuration file without -c, and one from standard input") {
  const TrainedFolder folder;
  CHECK(run_command(folder, {"train", "c.yaml", "train.steps=1", "output.dir=s"}).code == 0);
  CHECK(run_here(folder, {"eval", "c.yaml", "model.from=r/last"}).code == 0);
  CHECK(run_here(folder, {"plan", "c.yaml"}).code == 0);
  check_refusals(folder, {}, {{"plan", "plan", "-c"}});
  const std::string line = LACUNA_BINARY_DIR "/bin/lacuna plan -c - < c.yaml";
  CHECK(run_program(folder, "/bin/sh", {"-c", line}).code == 0);
  CHECK(
      run_program(folder, "/bin/sh", {"-c", "cat c.yaml | " LACUNA_BINARY_DIR "/bin/lacuna plan -c /dev/stdin"}).code ==
      0);
}

TEST_CASE("command: alone it prints its help") {
  const TemporaryFolder folder;
  const CommandResult alone = run_command(folder, {});
  CHECK(alone.code == 0);
  CHECK(alone.out == run_command(folder, {"--help"}).out);
}

TEST_CASE("completion: each shell's script names every command, and is one") {
  const TemporaryFolder folder;
  for (const char* const shell : {"bash", "zsh", "fish"}) {
    const CommandResult result = run_command(folder, {"completion", shell});
    CHECK(result.code == 0);
    for (const char* const name : {"train", "eval", "plan", "explain", "sweep", "report", "doctor", "resume"})
      CHECK_MESSAGE(result.out.find(name) != std::string::npos, name);
  }
  CHECK(run_command(folder, {"completion", "tcsh"}).code == 2);
  const std::string line = "source <(" LACUNA_BINARY_DIR
                           "/bin/lacuna completion bash); "
                           "COMP_WORDS=(lacuna ev); COMP_CWORD=1; _lacuna; echo ${COMPREPLY[@]}; "
                           "COMP_WORDS=(lacuna train --over); COMP_CWORD=2; _lacuna; echo ${COMPREPLY[@]}";
  CHECK(run_program(folder, "/bin/bash", {"-c", line}).out == "eval\n--overwrite\n");
}

TEST_CASE("eval: weights of a run are the run's") {
  const TrainedFolder folder;
  check_refusals(folder, {"eval", "r"},
                 {{"model.from=r/last", "weights"},
                  {"model.from=", "model.from"},
                  {"model={name: vit, from: r/last}", "weights"}});
}

TEST_CASE("eval: values that only training uses are refused") {
  const TrainedFolder folder;
  const std::vector<Refusal> rows{{"memory.policy=keep", "memory"},
                                  {"memory={policy: keep}", "memory"},
                                  {"optimizer.lr=1", "optimizer"},
                                  {"schedule.name=cosine", "schedule"},
                                  {"train.epochs=3", "train.epochs"},
                                  {"train={batch_size: 4, steps: 2}", "train.steps"},
                                  {"output.dir=s", "output"},
                                  {"data.augment=crop_flip", "data.augment"},
                                  {"data={mixup: 0.2, val_size: 4}", "data.mixup"}};
  check_refusals(folder, {"eval", "r"}, rows);
  check_refusals(folder, {"eval", "-c", "c.yaml", "model.from=r/last"}, rows);
  for (const char* const change : {"train.batch_size=4", "train={batch_size: 4, threads: 1}"}) {
    CAPTURE(change);
    CHECK(run_command(folder, {"eval", "r", change}).code == 0);
  }
}

TEST_CASE("plan: sizes at the ends of their ranges are planned or refused") {
  const TemporaryFolder folder(vit);
  for (const char* const size : {"65536", "32768", "16384"})
    for (const char* const patch : {"1", "2", "16"}) {
      const CommandResult result = run_command(folder, {"plan", "-c", "c.yaml", std::string("model.image_size=") + size,
                                                        std::string("model.patch_size=") + patch});
      INFO(result.error);
      CHECK(result.code <= 2);
    }
}

TEST_CASE("plan: --card says whether a GPU that is not here has room, less what the driver takes of it") {
  const TemporaryFolder folder(vit);
  const auto plan = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"plan", "-c", "c.yaml", "--json", "-"};
    words.insert(words.end(), more.begin(), more.end());
    return run_command(folder, words);
  };
  const auto fits = [&](const std::string& card) {
    const CommandResult result = plan({"train.device=cuda", "--card", card});
    INFO(result.error);
    REQUIRE(result.code == 0);
    return result.json().at("fits").get<bool>();
  };
  CHECK(fits("8GiB"));
  CHECK_FALSE(fits("768MiB"));
  const auto saved = [&](const std::string& policy, const std::string& card) {
    const CommandResult result = plan({"train.device=cuda", "memory.policy=" + policy, "--card", card});
    INFO(result.error);
    REQUIRE(result.code == 0);
    return result.json().at("memory").at("saved").get<std::int64_t>();
  };
  CHECK(saved("auto", "8GiB") == saved("keep", "8GiB"));
  CHECK(saved("exact", "8GiB") < saved("keep", "8GiB"));
  CHECK(plan({"train.device=cuda", "memory.policy=auto", "--card", "1792MiB"}).code == 2);  // no room for tensors
  for (const bool has_room : {true, false}) {
    const nlohmann::json compared =
        plan({"train.device=cuda", "--policies", "keep,exact", "--card", has_room ? "8GiB" : "1792MiB"}).json();
    REQUIRE(compared.size() == 2);
    for (const nlohmann::json& each : compared) CHECK(each.at("fits") == has_room);
  }
  CHECK(plan({"train.device=cpu", "--card", "8GiB"}).code == 2);
  check_refused(folder, {"plan", "-c", "c.yaml", "train.device=cpu", "memory.budget=device"}, {"memory.budget"});
  CHECK(plan({"train.device=cuda", "--card", "eight"}).code == 2);
  CHECK(plan({"train.device=cuda", "--card", "24GiB", "--compute-capability", "8.9"}).code == 0);
  for (const char* const wrong : {"7.5", "8", "8.x", "89"})
    CHECK(plan({"train.device=cuda", "--card", "24GiB", "--compute-capability", wrong}).code == 2);
}

#ifndef LACUNA_ADDRESS_SANITIZER  // whose own memory does not fit under a limit
TEST_CASE("train: a limit on data leaves room for what is needed") {
  const TemporaryFolder folder(resnet);
  for (const char* const kib : {"160000", "200000"}) {
    const std::string line = std::string("ulimit -d ") + kib +
                             "; exec " LACUNA_BINARY_DIR
                             "/bin/lacuna train -c c.yaml train.threads=2 train.steps=1 output.dir=r --overwrite";
    const CommandResult result = run_program(folder, "/bin/sh", {"-c", line});
    INFO(result.error);
    CHECK(result.code == 0);
  }
}
#endif

}  // namespace lacuna::test
