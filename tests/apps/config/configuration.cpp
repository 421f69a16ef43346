#include "apps/config/experiment.h"

#include "apps/config/paths.h"
#include "apps/config/resolve.h"
#include "apps/config/schema.h"
#include "core/error.h"
#include "tests/apps/problems.h"
#include "tests/apps/refusals.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <cstdlib>
#include <thread>

namespace lacuna::apps {
namespace {

using test::check_refusals, test::lines_of, test::names, test::Refusal;

const std::string model = "model: {name: vit}\n";

/// The message with which a configuration is refused; empty when it is not.
std::string refusal(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return test::refusal_of([&] { parse_configuration(text, "a.yaml", overrides); });
}

Experiment read(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse_configuration(model + text, "a.yaml", overrides);
}

Experiment read_again(const Experiment& configuration) {
  return parse_configuration(to_yaml(configuration), "b.yaml", {});
}

/// The refusal of what stands in the lines after the model's.
std::string refusal_after_model(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return refusal(model + text, overrides);
}

}  // namespace

TEST_CASE("configuration: every type is read") {
  const Experiment configuration = read(
      "train: {epochs: 1e1, batch_size: 32, clip_norm: 1e-4, precision: \"bf16\"}\n"
      "optimizer:\n  name: adamw\n  lr: 5e-4\n  beta2: .95\n  decay_norm_and_bias: false\n"
      "freeze: {train: [\"head*\", \"*norm*\"]}\n"
      "output:\n  dir: runs/a b\n");
  CHECK(configuration.model.name == "vit");
  CHECK(configuration.train.epochs == 10);
  CHECK(configuration.train.batch_size == 32);
  CHECK(configuration.train.clip_norm == 1e-4);
  CHECK(configuration.train.precision == "bf16");
  CHECK(configuration.optimizer.lr == 5e-4);
  CHECK(configuration.optimizer.options == OptionValues{{"beta2", 0.95}, {"decay_norm_and_bias", false}});
  CHECK(configuration.freeze.train == std::vector<std::string>{"head*", "*norm*"});
  CHECK(configuration.output.dir == "runs/a b");
  CHECK(configuration.memory.policy == "exact");
}

TEST_CASE("configuration: an unknown key names its place and the nearest one") {
  check_refusals(
      model,
      {{"train:\n  epoch: 3", "a.yaml:3:3", "\"epoch\"|\"epochs\""},
       {"trian: {}", "a.yaml:2:1", "\"trian\"|\"train\""},
       {"optimizer: {name: sgd, momentun: 0.9}", "a.yaml:2:24", "sgd|\"momentum\""},
       {"optimizer: {name: adamw, zzzzzzz: 0.9}", "a.yaml:2:26", "adamw|\"zzzzzzz\"|name, lr, "},
       {"optimizer: {name: adamw, momentum: 0.9}", "a.yaml:2:26",
        "optimizer.momentum|sgd|adamw|'optimizer={name: adamw}'"},
       {"memory: {zzzzzzz: 1}", "a.yaml:2:10", "memory policy exact|policy, budget, budget_of, plan, recompute, rules"},
       {"train: {label_smoothing: 0.1}", "a.yaml:2:9", "\"task.label_smoothing\""}});  // of another section
  check_refusals("", {{"model: {name: vit, patchsize: 4}", "a.yaml:1:20", "model vit|patchsize"}});
}

TEST_CASE("configuration: a sweep is told as one") {
  check_refusals("", {{"command: plan\nconfig: c.yaml", "a.yaml: ", "sweep|`lacuna sweep -c a.yaml`"},
                      {"grid: {}\ncommand: plan\nmodel.name=vit", "a.yaml: ", "sweep"},
                      {"model: {name: vit}\ncommand=plan", "command line", "section \"command\""}});
}

TEST_CASE("configuration: all that is wrong is listed at once") {
  const std::string message = refusal_after_model(
      "train: {epochs: 3, epochs: 4, batch_size: big}\nmemory: {policy: exakt}\n", {"train.seed=x"});
  CHECK(lines_of(message) == 4);
  CHECK(names(message, "a.yaml:2:20", {"\"epochs\"", "line 2"}));
  CHECK(names(message, "a.yaml:2:43", {"train.batch_size", "`big`"}));
  CHECK(names(message, "command line", {"train.seed", "`x`"}));
  CHECK(names(message, "a.yaml:3:18", {"memory.policy", "adaptive, auto, exact", "`exakt`", "\"exact\""}));
}

TEST_CASE("configuration: a wrong type says what was expected and got") {
  check_refusals(model,
                 {{"train: {epochs: 1.5}", "a.yaml:2:17", "train.epochs|whole number|`1.5`"},
                  {"train: {epochs: \"3\"}", "a.yaml:2:17", "train.epochs|whole number|text `3`"},
                  {"train: {epochs: }", "a.yaml:2:17", "train.epochs|nothing"},
                  {"train: {epochs: 0}", "a.yaml:2:17", "train.epochs|[1, 1000000000]|`0`"},
                  {"train: {epochs: 1e300}", "a.yaml:2:17", "train.epochs|`1e300`"},
                  {"train: {seed: 1e17}", "a.yaml:2:15", "train.seed|`1e17`"},  // not every whole number is a double
                  {"train: {clip_norm: .inf}", "a.yaml:2:20", "train.clip_norm|`.inf`"},
                  {"train: {clip_norm: nan}", "a.yaml:2:20", "train.clip_norm|`nan`"},
                  {"train: {clip_norm: 0x10}", "a.yaml:2:20", "train.clip_norm|`0x10`"},
                  {"train: {clip_norm: -1}", "a.yaml:2:20", "train.clip_norm|[0, inf)|`-1`"},
                  {"train: {ema_decay: 1}", "a.yaml:2:20", "train.ema_decay|[0, 1)"},
                  {"train: {precision: [f32]}", "a.yaml:2:20", "train.precision|a list"},
                  {"train: 3", "a.yaml:2:8", "train|`3`"},
                  {"task: {label_smoothing: 2}", "a.yaml:2:25", "task.label_smoothing|[0, 1]"},
                  {"memory: {policy: fixed, bits: 2.5}", "a.yaml:2:31", "memory.bits|whole number in [1, 8]|`2.5`"},
                  {"freeze: {train: {head: 1}}", "a.yaml:2:17", "freeze.train|list"},
                  {"schedule: {name: step, milestones: 3}", "a.yaml:2:36", "schedule.milestones|list of numbers|`3`"},
                  {"schedule: {name: step, milestones: [1, x]}", "a.yaml:2:40", "schedule.milestones|`x`"}});
  for (const std::string value : {"yes", "no", "1", "True", "\"true\""})
    check_refusals(model, {{"optimizer: {name: adamw, decay_norm_and_bias: " + value + "}", "a.yaml:2:47",
                            "optimizer.decay_norm_and_bias|true or false"}});
  check_refusals("", {{"model: {name: vit, depth: {a: 1}}", "a.yaml:1:20", "depth|a whole number|a section"},
                      {"- 1", "a.yaml:1:1", "sections|a list"}});
}

TEST_CASE("configuration: a model is asked about its hyper-parameters") {
  check_refusals("", {{"", "a.yaml:1:1", "model.name|`lacuna models`"},
                      {"model: {num_classes: 3}", "a.yaml:1:1", "model.name"},
                      {"model: {name: resnet5}", "a.yaml:1:15", "model.name|\"resnet50\""},
                      {"model: {name: vit, image_size: 32, patch_size: 4}\ndata: {image_size: 64}", "a.yaml:1:20",
                       "model.image_size|32|data.image_size|64"},
                      {"model: {name: vit, patch_size: 5}\ndata: {image_size: 64}", "a.yaml:1:20", "`patch_size`"}});
  const std::string indivisible =
      refusal("model: {name: vit, image_size: 32, patch_size: 5, embed_dim: 10, num_heads: 3}\n");
  CHECK(names(indivisible, "a.yaml:1:36", {"`patch_size`", "`image_size`"}));
  CHECK(names(indivisible, "a.yaml:1:66", {"`num_heads`", "`embed_dim`"}));
  // A number in quotes is a text, which the message says.
  for (const char* const text : {"image_size: \"32\"", "depth: '3'", "drop_rate: \"0.1\"", "qkv_bias: \"true\""})
    check_refusals("data: {image_size: 32}\n",
                   {{fmt::format("model: {{name: vit, {}}}", text), "a.yaml:2:20", "the text|without quotes"}});
}

TEST_CASE("configuration: values that do not go together are listed at once, each where it stands") {
  const std::string message = refusal(
      "model: {name: vit, image_size: 32, patch_size: 5, num_classes: 3, in_channels: 1}\n"
      "train: {epochs: 3, batch_size: 8, accumulate: 3}\n"
      "optimizer: {name: sgd, nesterov: true}\n"
      "schedule: {name: cosine, warmup_epochs: 7}\n"
      "freeze: {train: [\"head*\"], freeze: [\"norm*\"]}\n"
      "memory: {policy: mesa, budget: 1GiB}\n");
  INFO(message);
  CHECK(lines_of(message) == 8);
  CHECK(names(message, "a.yaml:1:36", {"`patch_size`"}));
  CHECK(names(message, "a.yaml:2:35", {"train.accumulate", "train.batch_size"}));
  CHECK(names(message, "a.yaml:5:1", {"freeze", "`train`", "`freeze`"}));
  CHECK(names(message, "a.yaml:3:1", {"optimizer sgd", "nesterov", "momentum"}));
  CHECK(names(message, "a.yaml:4:1", {"schedule cosine", "7", "3"}));
  CHECK(names(message, "a.yaml:6:24", {"memory.budget", "memory.policy: auto", "mesa"}));
  CHECK(names(message, "a.yaml:1:51", {"model.num_classes", "shapes", "10"}));
  CHECK(names(message, "a.yaml:1:67", {"model.in_channels", "shapes", "3"}));
  check_refusals(model, {{"schedule: {name: step}", "a.yaml:2:1", "schedule step|milestones"}});
}

TEST_CASE("configuration: a task is chosen by name, with its settings, and fits the data set") {
  CHECK(read("").task.name == "classification");
  CHECK(read("task: {label_smoothing: 0.1}\n").task.options == OptionValues{{"label_smoothing", 0.1}});
  check_refusals(model, {{"task: {name: clasification}", "a.yaml:2:14",
                          "task.name|classification, contrastive|\"classification\""},
                         {"task: {name: regression, label_smoothing: 0.1}", "a.yaml:2:26",
                          "task.label_smoothing|classification|regression"},
                         {"task: {name: regression}", "a.yaml:2:8", "task regression|f32|shapes|i64"}});
}

TEST_CASE("configuration: the settings of a task that is not named are those of the model's") {
  const std::vector<std::string> words{"model.name=linear_segmenter", "model.backbone={name: vit, depth: 1}",
                                       "data.name=shape_masks", "task.dice=0.5"};
  const Experiment configuration = parse_configuration("", "a.yaml", words);
  CHECK(configuration.task.name == "segmentation");
  CHECK(configuration.task.options.at("dice").text == "0.5");
  check_refusals(model, {{"task: {dice: 0.5}", "a.yaml:2:8", "segmentation|classification"}});
}

TEST_CASE("configuration: what is no plain YAML is refused") {
  CHECK(refusal("model: [\n").starts_with("a.yaml:2:1: this is no YAML: "));
  check_refusals("", {
                         {"a: 1\n---\nb: 1", "a.yaml:2:1", "one document"},
                         {"# x\n, a: 1", "a.yaml:2:1", "no YAML"},  // yaml-cpp never ends reading it
                     });
  check_refusals(model, {{"train: &a {epochs: 1}\ndata: *a", "a.yaml:3:1", "aliases"},
                         {"train: {epochs: !!int 3}", "a.yaml:2:17", "tags"},
                         {"<<: {train: {}}", "a.yaml:2:1", "section \"<<\""},
                         {"[a]: 1", "a.yaml:2:1", "key|a list"}});
  CHECK(refusal(std::string(100'000, '[')).ends_with("nested more than 16 deep"));
  const test::TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(read_configuration(folder / "no.yaml", {}), doctest::Contains("there is no such file"), Error);
  test::write_file(folder / "big.yaml", std::string(2 << 20, ' '));
  CHECK_THROWS_WITH_AS(read_configuration(folder / "big.yaml", {}), doctest::Contains("more than a configuration"),
                       Error);
}

TEST_CASE("configuration: the command line overrides the file") {
  const Experiment configuration = read("train: {epochs: 3, batch_size: 8}\noptimizer: {name: sgd, momentum: 0.9}\n",
                                        {"train.epochs=5", "data.name=cifar10", "freeze.train=[\"head*\"]",
                                         "optimizer={name: adamw, lr: 1e-4}", "model.depth=3"});
  CHECK(configuration.train.epochs == 5);
  CHECK(configuration.train.batch_size == 8);
  CHECK(configuration.data.name == "cifar10");
  CHECK(configuration.freeze.train == std::vector<std::string>{"head*"});
  CHECK(configuration.optimizer.name == "adamw");
  CHECK(configuration.optimizer.options.empty());
  REQUIRE(configuration.model.options.size() == 1);
  CHECK(configuration.model.options[0].value == Tree(std::int64_t{3}));

  CHECK(names(refusal_after_model("", {"epochs"}), "command line", {"key=value", "`epochs`"}));
  check_refusals(model, {{"train.epoch=3", "command line", "\"epoch\"|\"epochs\""},
                         {"train: {epochs: 1}\ntrain.epochs.x=3", "command line", "\"train.epochs.x\"|`1`"},
                         {"freeze.train=[*norm]", "command line", "freeze.train=[*norm]|YAML"}});
}

TEST_CASE("configuration: short forms of the command line name a choice, a path, or the only section with a key") {
  const test::TemporaryFolder folder;
  for (const char* const one : {"train/a/1.pgm", "train/b/1.pgm", "val/a/1.pgm", "val/b/1.pgm"}) {
    std::filesystem::create_directories((folder / "pictures" / one).parent_path());
    test::write_file(folder / "pictures" / one, "P5 1 1 255\n0");
  }
  const std::string pictures = (folder / "pictures").string();
  const Experiment experiment = read(
      "data: {name: cifar10}\n",
      {"model=vit_cifar", "data=" + pictures, "epochs=3", "lr=0.5", "optimizer=sgd", "output=here", "budget=6GiB"});
  CHECK(experiment.model.name == "vit_cifar");
  CHECK(experiment.data.name == "imagefolder");
  CHECK(experiment.data.source.path == pictures);
  CHECK(experiment.train.epochs == 3);
  CHECK(experiment.optimizer.name == "sgd");
  CHECK(experiment.optimizer.lr == 0.5);
  CHECK(experiment.output.dir == "here");
  CHECK(experiment.memory.policy == "auto");  // which a budget is for
  CHECK(experiment.memory.budget == "6GiB");
  CHECK(read("", {"batch_size=auto"}).train.batch_size == 0);
  check_refusals(model, {{"schedule: {name: cosine}\nschedule.warmup_epochs=10", "command line", "warm-up"},
                         {"train:\n\tepochs: 1", "a.yaml", "tabs"},
                         {"seed=3", "command line", "train.seed|data.seed"},
                         {"batch_size=many", "train.batch_size", "auto"},
                         {"epoch=1", "command line", "epochs"},
                         {"batch=16", "command line", "batch_size"},
                         {"learning_rate=0.1", "command line", "lr"},
                         {"train.device=gpu", "train.device", "\"cuda\""},
                         {"model=bert-base-uncased", "model.name", "\"bert_base\""},
                         {"model=no_such_model", "no_such_model"},
                         {"data=/no/such/folder", "does not exist"},
                         {"data=./nosuch", "does not exist"},
                         {"data=picz", "picz", "does not exist"},
                         {"data=cifar1", "cifar10"}});
  check_refusals("", {{"model.from=bert-base-uncased", "model.from", "hf download bert-base-uncased"},
                      {"model.from=./nowhere", "model.from", "does not exist"}});
}

TEST_CASE("configuration: a policy on the command line begins with its own settings") {
  const std::string fixed = "memory: {policy: fixed, bits: 2, group_size: 64, recompute: [\"blocks.0\"]}\n";
  const Experiment mesa = read(fixed, {"memory.policy=mesa"});
  CHECK(mesa.memory.options.empty());
  CHECK(mesa.memory.recompute == std::vector<std::string>{"blocks.0"});
  CHECK(read(fixed, {"memory.bits=4", "memory.policy=mesa"}).memory.options == OptionValues{{"bits", 4.0}});
  CHECK(read(fixed, {"memory.policy=fixed"}).memory.options == OptionValues{{"bits", 2.0}, {"group_size", 64.0}});
  CHECK(read(fixed, {"memory={policy: adaptive, bits: 3}"}).memory.options == OptionValues{{"bits", 3.0}});
  // The budget and the plan of `auto` go with it.
  const std::string planned = "memory: {policy: auto, budget: 4MiB, budget_of: saved, plan: p.json, codes: true}\n";
  const Experiment exact = read(planned, {"memory.policy=exact"});
  CHECK(exact.memory.budget.empty());
  CHECK(exact.memory.budget_of == "peak");
  CHECK(exact.memory.options.empty());
  CHECK(exact.memory.plan_file.empty());
  CHECK(read(planned, {"memory.budget=5MiB"}).memory.plan_file == "p.json");
}

TEST_CASE("configuration: a further file replaces what it sets") {
  const test::TemporaryFolder folder;
  const auto file = [&](const char* name, std::string_view text) {
    test::write_file(folder / name, text);
    return (folder / name).string();
  };
  const std::string recipe = file("recipe.yaml",
                                  "model: {name: vit, depth: 3}\ntrain: {epochs: 3, batch_size: 8}\n"
                                  "optimizer: {name: sgd, momentum: 0.9}\nmemory: {policy: mesa, decay: 0.5}\n");
  const auto both = [&](std::string_view text, const std::vector<std::string>& overrides = {}) {
    return read_configuration(std::vector{recipe, file("further.yaml", text)}, overrides);
  };
  const Experiment keys =
      both("train: {epochs: 4, seed: 2}\nmodel: {attention: chain}\nmemory: {recompute: [x]}\n", {"train.seed=5"});
  CHECK(keys.train.epochs == 4);
  CHECK(keys.train.batch_size == 8);
  CHECK(keys.train.seed == 5);  // the command line comes last
  CHECK(keys.model.options.size() == 2);
  CHECK(keys.memory.policy == "mesa");
  CHECK(keys.memory.options == OptionValues{{"decay", 0.5}});
  CHECK(keys.memory.recompute == std::vector<std::string>{"x"});

  // Options of a replaced policy or optimizer are dropped, even if the new one has options of the same name.
  const Experiment named = both("memory: {policy: adaptive, bits: 2.5}\noptimizer: {name: sgd}\ndata:\ntrain:\n");
  CHECK(named.memory.policy == "adaptive");
  CHECK(named.memory.options == OptionValues{{"bits", 2.5}});
  CHECK(named.optimizer.options.empty());
  CHECK(named.train.epochs == 3);  // a section without keys says nothing

  const auto refused = [&](std::string_view text) { return test::refusal_of([&] { both(text); }); };
  const std::string further = (folder / "further.yaml").string();
  const std::string both_wrong = refused("train: {epoch: 4}\nmemory: 3\n");
  CHECK(names(both_wrong, further + ":1:9", {"\"epochs\""}));
  CHECK(names(both_wrong, further + ":2:9", {"memory", "`3`"}));
  CHECK(names(refused("memory: {bits: 4, decy: 1}\n"), further + ":1:19", {"memory policy mesa", "\"decay\""}));
  CHECK(names(refused("[1]\n"), further + ":1:1", {"a list"}));
  CHECK(refused("command: plan\ncases: []\n").starts_with(further + ": this is a sweep"));
}

TEST_CASE("configuration: what is written reads back the same") {
  const Experiment configuration = read(
      "train: {epochs: 7, clip_norm: 0.1}\ndata: {path: \"a: \\\"b\\\" # c\", name: cifar100}\n"
      "optimizer: {name: sgd, lr: 0.3, momentum: 0.9, nesterov: true}\n"
      "schedule: {name: step, milestones: [1, 2.5], gamma: 0.2}\ntask: {label_smoothing: 0.2}\nfreeze: {train: "
      "[\"head*\", \"*.bias\"]}\n",
      {"model.depth=3", "model.num_classes=100"});
  const std::string text = to_yaml(configuration);
  const Experiment again = parse_configuration(text, "again.yaml");
  CHECK(to_yaml(again) == text);
  CHECK(again.data.source.path == "a: \"b\" # c");
  CHECK(again.train.clip_norm == 0.1);
  CHECK(again.optimizer.options == configuration.optimizer.options);
  CHECK(again.schedule.options == configuration.schedule.options);
  CHECK(again.freeze.train == configuration.freeze.train);
  CHECK(again.task.options == configuration.task.options);
  CHECK(again.model.num_classes == 100);
}

TEST_CASE("configuration: a resolved one says every value, and is itself again") {
  const std::string text = to_yaml(resolve(read("optimizer: {name: sgd}\n", {"model.depth=3"})));
  for (const char* const line : {"  momentum: 0\n", "  weight_decay: 0\n", "  num_heads: 12\n", "  depth: 3\n",
                                 "  warmup_epochs: 0\n", "  label_smoothing: 0\n", "  num_classes: 10\n"})
    CHECK_MESSAGE(text.find(line) != std::string::npos, line);
  CHECK(text.find("mean: []") == std::string::npos);
  CHECK(to_yaml(resolve(parse_configuration(text, "run.yaml"))) == text);
}

TEST_CASE("configuration: f16 and tf32 are refused on the CPU, and planned on meta") {
  for (const std::string precision : {"f16", "tf32"}) {
    const std::vector<std::string> words{"train.precision=" + precision};
    check_refusals(model + "train: {device: cpu}\n", {{words.front(), "train.precision"}});
    CHECK(resolve(read("train: {device: meta}\n", words)).train.precision == precision);
  }
}

TEST_CASE("configuration: another choice on the command line does not keep the defaults of the one before") {
  const std::string text = to_yaml(resolve(read("optimizer: {name: adamw, weight_decay: 0.05}\n")));
  const auto with = [&](const std::string& assignment) {
    return parse_configuration(text, "run.yaml", std::vector{assignment});
  };
  CHECK(with("optimizer.name=lion").optimizer.options == OptionValues{{"weight_decay", 0.05}});
  CHECK(with("schedule.name=cosine").schedule.options.empty());
  CHECK(with("data.name=cifar10").data.images.mean.empty());
  CHECK(to_yaml(resolve(with("model.name=resnet20"))).find("embed_dim") == std::string::npos);
}

TEST_CASE("configuration: docs/configuration.md is what `lacuna keys --markdown` writes") {
  CHECK(test::read_file(LACUNA_SOURCE_DIR "/docs/configuration.md") == keys_as_markdown());
}

TEST_CASE("configuration: every key has a type and a help text, and an evaluation refuses those of training alone") {
  for (const KeyHelp& key : key_help()) {
    CHECK_MESSAGE(!key.type.empty(), key.name);
    CHECK_MESSAGE(key.help.substr(key.help.find(": ") + 1).size() > 3, key.name);
  }
  for (const char* const key : {"hflip", "erase_count", "repeats", "mixup", "sampler", "train_size", "group_by_length"})
    CHECK_MESSAGE(use_of("data", key) != Use::any, key);
  for (const char* const key : {"image_size", "crop_pct", "validation_size", "path", "workers"})
    CHECK_MESSAGE(use_of("data", key) == Use::any, key);
  CHECK(use_of("train", "epochs") == training_only);
  CHECK(use_of("train", "batch_size") == Use::any);
  CHECK(use_of("optimizer", "lr") == training_only);
}

TEST_CASE("configuration: settings without effect are refused") {
  check_refusals(model, {{"train: {init_scale: 8}", "train.init_scale"},
                         {"train: {growth_interval: 8}", "train.growth_interval"},
                         {"data: {name: shapes, path: c10}", "data.path"},
                         {"train: {epochs: 3}\ntrain=", "train="},
                         {"train: {epochs: 3}\ntrain.epochs=", "train.epochs="}});
}

TEST_CASE("configuration: mean and deviation of the images") {
  const Experiment configuration = read("data: {mean: [0.5, 0.5, 0.5], std: [0.25, 0.5, 1]}\n");
  CHECK(configuration.data.images.mean == std::vector<double>{0.5, 0.5, 0.5});
  CHECK(configuration.data.images.deviation == std::vector<double>{0.25, 0.5, 1});
  CHECK(read_again(configuration).data.images.deviation == configuration.data.images.deviation);
  check_refusals(model, {{"data: {mean: [0.5, 0.5, 0.5]}", "a.yaml:2:1", "`mean`|`std`"},
                         {"data: {mean: [0.5], std: [0.5]}", "data.mean"},
                         {"data: {mean: [0, 0, 0], std: [0.5, 0, 1]}", "data.std"},
                         {"data: {mean: [0, 0, 0], std: [0.5, a, 1]}", "data.std", "`a`"}});
}

TEST_CASE("configuration: pixel augmentation is read, written and checked") {
  const Experiment configuration =
      read("data: {auto_augment: rand-m9-mstd0.5-inc1, erase_probability: 0.25, erase_mode: rand, repeats: 3}\n");
  CHECK(read_again(configuration).data.images.pixels.auto_augment == "rand-m9-mstd0.5-inc1");
  CHECK(read_again(configuration).data.images.pixels.erase_mode == "rand");
  CHECK(read_again(configuration).data.repeats == 3);
  CHECK(read("data: {color_jitter: 0.4}\n").data.images.pixels.color_jitter == std::vector<double>{0.4});
  check_refusals(model, {{"data: {auto_augment: rand-x9}", "data.auto_augment", "rand-x9"},
                         {"data: {auto_augment: 3b}", "data.auto_augment", "3b"},
                         {"data: {auto_augment: rand-m9, interpolation: lanczos}", "data.auto_augment", "lanczos"},
                         {"data: {channels: 2}", "data.channels", "2"},
                         {"data: {auto_augment: rand-m9, color_jitter: 0.4}", "data.color_jitter"},
                         {"data: {erase_mode: const}", "data.erase_mode"},
                         {"data: {erase_probability: 2}", "data.erase_probability", "[0, 1]"},
                         {"data: {color_jitter: [1, 1]}", "data.color_jitter"},
                         {"data: {force_color_jitter: true}", "data.force_color_jitter"},
                         {"data: {repeats: 0}", "data.repeats", "[1, "}});
  check_refusals("", {{"model: {name: bert}\ndata: {name: random_tokens, erase_probability: 0.5}", "random_tokens"}});
}

TEST_CASE("configuration: images are as the model's preset wants them, unless the configuration says otherwise") {
  const auto of = [](const std::string& text) { return parse_configuration(text, "a.yaml"); };
  const TransformOptions deit = of("model: {name: deit_tiny_patch16_224}\n").data.images;
  CHECK(deit.mean == std::vector<double>{0.485, 0.456, 0.406});
  CHECK(deit.interpolation == Interpolation::bicubic);
  CHECK(deit.crop_pct == 0.9);
  CHECK(of("model: {name: vit_tiny_patch16_224}\n").data.images.deviation == std::vector<double>{0.5, 0.5, 0.5});
  const TransformOptions said = of("model: {name: deit_tiny_patch16_224}\n"
                                   "data: {interpolation: bilinear, crop_pct: 1, mean: [0, 0, 0], std: [1, 1, 1]}\n")
                                    .data.images;
  CHECK(said.mean == std::vector<double>{0, 0, 0});
  CHECK(said.deviation == std::vector<double>{1, 1, 1});
  CHECK(said.interpolation == Interpolation::bilinear);
  CHECK(said.crop_pct == 1);
  // Masks and boxes are evaluated on the whole image.
  CHECK(of("model: {name: segformer_b0}\n").data.images.crop_mode == "squash");
  CHECK(of("model: {name: segformer_b0}\ndata: {crop_mode: border}\n").data.images.crop_mode == "border");
  CHECK(of("model: {name: retinanet_resnet50_fpn}\n").data.images.crop_mode == "border");
  CHECK(of("model: {name: resnet50}\n").data.images.crop_mode == "center");
  // A family has its data set's.
  CHECK(read("").data.images.mean.empty());
  CHECK(resolve(read("")).data.images.mean.size() == 3);
  CHECK(read("").data.images.crop_pct == 1);
}

TEST_CASE("configuration: mixing, sampling and patience") {
  const Experiment c = read(
      "data: {mixup: 0.8, cutmix: 1, mixup_mode: pair, mixup_off_epoch: 5}\n"
      "train: {batch_size: 4, ema_decay: 0.9, ema_warmup: timm, best_by: loss, patience: 3}\n"
      "task: {name: classification, loss: bce, target_threshold: 0.2}\n");
  CHECK(c.data.mix.mixup == 0.8);
  CHECK(c.train.best_by == "loss");
  CHECK(mixing_of(resolve(c)) != nullptr);
  CHECK(mixing_of(resolve(read(""))) == nullptr);
  check_refusals(model, {{"data: {mixup_mode: pair}", "data.mixup"},
                         {"data: {mixup: 0.8, mixup_switch: 0.3}", "mixup_switch"},
                         {"data: {mixup: 0.8}\ntrain: {batch_size: 5}", "train.batch_size"},
                         {"data: {cutmix_minmax: [0.5]}", "cutmix_minmax"},
                         {"data: {cutmix_minmax: [0.5, 0.2]}", "cutmix_minmax"},
                         {"data: {cutmix_minmax: [0.2, 0.5], cutmix: 1}", "cutmix_minmax"},
                         {"data: {sampler: weighted}", "sampler_weights"},
                         {"data: {sampler: weighted, sampler_weights: [1, 2]}", "sampler_weights"},
                         {"data: {sampler_weights: [1, 2]}", "sampler"},
                         {"train: {ema_warmup: timm}", "ema_warmup"},
                         {"train: {best_by: f1}", "best_by"},
                         {"task: {name: classification, class_weights: 1}", "class_weights"}});
  check_refusals("", {{"model: {name: bert_tiny}\ndata: {name: random_tokens, mixup: 0.8}", "mixup"}});
}

TEST_CASE("configuration: training images are augmented, those of an evaluation are not") {
  const auto images = [](Split split, const std::string& data) {
    const Experiment resolved = resolve(parse_configuration(
        "model: {name: resnet20}\ntrain: {batch_size: 4}\ndata: {train_size: 12, val_size: 4" + data + "}\n",
        "a.yaml"));
    const Batches batches = batches_of(resolved, open_dataset("shapes", dataset_options(resolved, split)), split);
    Sample sample;
    return batches.read(0, 0, batches.allocate(), sample)["images"].to_vector();
  };
  for (const char* const data : {", auto_augment: rand-m9-p1", ", color_jitter: 0.4", ", erase_probability: 1",
                                 ", grayscale_probability: 1", ", blur_probability: 1", ", repeats: 3"}) {
    CAPTURE(data);
    CHECK(images(Split::train, data) != images(Split::train, ""));
    CHECK(images(Split::validation, data) == images(Split::validation, ""));
  }
}

TEST_CASE("configuration: one text is a list of one") {
  CHECK(read("freeze: {train: head*}\n").freeze.train == std::vector<std::string>{"head*"});
  CHECK(read("", {"freeze.train=head*"}).freeze.train == std::vector<std::string>{"head*"});
}

TEST_CASE("configuration: a model's name as timm writes it") {
  CHECK(parse_configuration("model: {name: vit_tiny_patch16_224}\n", "a.yaml", {}).model.name ==
        "vit_tiny_patch16_224");
  // A tag names weights, which model.from has.
  const std::string tag = "vit_tiny_patch16_224.augreg_in21k";
  check_refusals("", {{"model: {name: no_such_model.augreg}", "model.name"},
                      {"model: {name: " + tag + "}", "model.name", "hf download timm/" + tag + " |model.from=" + tag},
                      {"model: {name: timm/" + tag + "}", "model.name", "hf download timm/" + tag + " "},
                      {"model: {name: 'hf_hub:timm/" + tag + "'}", "model.name", "hf download timm/" + tag + " "},
                      {"model: {name: resnet50.pth}", "model.name", "does not exist|model.from"},
                      {"model: {name: resnet50.safetensors, from: x}", "model.name", "does not exist|model.from"},
                      {"model: {name: resnet20.nonsense, from: x}", "model.name", "expected resnet20"},
                      {"model: {name: bert_tiny.a1_in1k}", "model.name", "expected bert_tiny"}});
}

TEST_CASE("configuration: ~ is the home folder") {
  const char* const before = std::getenv("HOME");
  const std::string home = before == nullptr ? "" : before;
  ::setenv("HOME", "/somewhere", 1);
  CHECK(read("data: {name: cifar10, path: ~/c10}\n").data.source.path == "/somewhere/c10");
  CHECK(read("", {"output.dir=~/runs/a", "model.from=~/w"}).output.dir == "/somewhere/runs/a");
  CHECK(read("output: {dir: a/~/b}\n").output.dir == "a/~/b");
  const Experiment taught = read("task: {name: distillation, teacher: resnet20, teacher_from: ~/t}\n");
  CHECK(taught.task.options.at("teacher_from").text == "/somewhere/t");
  if (before != nullptr) ::setenv("HOME", home.c_str(), 1);
  check_refusals(model, {{"output: {dir: ~nobody-of-this-name/a}", "~nobody-of-this-name"}});
}

TEST_CASE("configuration: a run's paths hold in any folder") {
  const Configuration run = with_absolute_paths(
      read("data: {name: cifar10, path: c}\ntask: {name: distillation, teacher: resnet20, teacher_from: t/best}\n",
           {"model.from=w", "output.dir=r"}));
  const auto here = [](const char* path) { return (std::filesystem::current_path() / path).string(); };
  CHECK(run.data.source.path == here("c"));
  CHECK(run.model.from == here("w"));
  CHECK(run.output.dir == here("r"));
  CHECK(run.task.options.at("teacher_from").text == here("t/best"));
}

TEST_CASE("configuration: what is written is read alike by other readers of YAML") {
  Experiment configuration = read("");
  configuration.optimizer.lr = 1e-5;
  configuration.train.clip_norm = 1e20;
  test::check_says(to_yaml(configuration), "lr: 1.0e-05\n");
  test::check_says(to_yaml(configuration), "clip_norm: 1.0e+20\n");
  for (const char* const text : {"123", "1e5", "on", "No", "0x1f", "1:30", "2026-11-25", ".5", "-1", "1_000", "plain",
                                 "a b", "lat\xe9in/\xc3\xa9", "\xff", "ends with \xe2\x82"}) {
    configuration.output.dir = text;
    CHECK(read_again(configuration).output.dir == text);
    const bool plain = std::string_view(text) == "plain";
    CHECK((to_yaml(configuration).find(std::string("dir: ") + text + "\n") != std::string::npos) == plain);
  }
}

TEST_CASE("configuration: a pipe is read") {
  const test::TemporaryFolder folder;
  const std::string pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  std::jthread writer([&] { test::write_file(pipe, "model: {name: vit}\ntrain: {epochs: 7}\n"); });
  CHECK(read_configuration(pipe, {}).train.epochs == 7);
}

}  // namespace lacuna::apps
