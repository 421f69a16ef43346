#include "apps/config/configuration.h"

#include "apps/config/keys.h"
#include "core/error.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>

namespace lacuna::apps {
namespace {

/// The message with which a configuration is refused; empty when it is not.
std::string refusal(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    parse_configuration(text, "a.yaml", overrides);
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::input);
    return error.what();
  }
  return {};
}

Configuration read(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse_configuration("model: {name: vit}\n" + text, "a.yaml", overrides);
}

/// The refusal of what stands in the lines after the model's.
std::string refusal_after_model(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return refusal("model: {name: vit}\n" + text, overrides);
}

}  // namespace

TEST_CASE("configuration: every type is read") {
  const Configuration configuration = read(
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
  CHECK(configuration.optimizer.options == SettingValues{{"beta2", 0.95}, {"decay_norm_and_bias", false}});
  CHECK(configuration.freeze.train == std::vector<std::string>{"head*", "*norm*"});
  CHECK(configuration.output.dir == "runs/a b");
  CHECK(configuration.memory.policy == "exact");
}

TEST_CASE("configuration: an unknown key names its place and the nearest one") {
  CHECK(refusal_after_model("train:\n  epoch: 3\n") ==
        "a.yaml:3:3: unknown key in section train: \"epoch\", did you mean \"epochs\"?");
  CHECK(refusal_after_model("trian: {}\n") == "a.yaml:2:1: unknown section \"trian\", did you mean \"train\"?");
  CHECK(refusal_after_model("optimizer: {name: sgd, momentun: 0.9}\n") ==
        "a.yaml:2:24: unknown key of the optimizer sgd: \"momentun\", did you mean \"momentum\"?");
  CHECK(refusal_after_model("optimizer: {name: adamw, zzzzzzz: 0.9}\n")
            .starts_with("a.yaml:2:26: unknown key of the optimizer adamw: \"zzzzzzz\"; known are name, lr, "));
  CHECK(refusal_after_model("optimizer: {name: adamw, momentum: 0.9}\n")
            .starts_with("a.yaml:2:26: optimizer.momentum is a setting of sgd, and adamw has none of that name; "));
  CHECK(refusal_after_model("memory: {zzzzzzz: 1}\n")
            .starts_with("a.yaml:2:10: unknown key of the memory policy exact: \"zzzzzzz\"; known are policy, "));
  CHECK(refusal("model: {name: vit, patchsize: 4}\n").starts_with("a.yaml:1:20: model vit: unknown hyper-parameter"));
}

TEST_CASE("configuration: a sweep is told as one") {
  CHECK(refusal("command: plan\nconfig: c.yaml\n") ==
        "a.yaml: this is a sweep, a command and the cases that it is run on, not a configuration: `lacuna sweep -c "
        "a.yaml` runs it");
  CHECK(refusal("grid: {}\ncommand: plan\n", {"model.name=vit"}).starts_with("a.yaml: this is a sweep, "));
  CHECK(refusal("model: {name: vit}\n", {"command=plan"}).find("unknown section") != std::string::npos);
}

TEST_CASE("configuration: all that is wrong is listed at once") {
  CHECK(refusal_after_model("train: {epochs: 3, epochs: 4, batch_size: big}\nmemory: {policy: exakt}\n",
                            {"train.seed=x"}) ==
        "a.yaml:2:20: the key \"epochs\" stands in line 2 already\n"
        "a.yaml:2:43: train.batch_size: expected a whole number, got `big`\n"
        "command line: train.seed: expected a whole number, got `x`\n"
        "a.yaml:3:18: memory.policy: \"exakt\" is none of adaptive, auto, exact, fixed, keep, mesa, did you mean "
        "\"exact\"?");
}

TEST_CASE("configuration: a wrong type says what was expected and got") {
  const auto train = [](const std::string& value) { return refusal_after_model("train: {" + value + "}\n"); };
  CHECK(refusal_after_model("memory: {policy: fixed, bits: 2.5}\n") ==
        "a.yaml:2:31: memory policy fixed: bits expected a whole number in [1, 8], got 2.5");
  CHECK(train("epochs: 1.5") == "a.yaml:2:17: train.epochs: expected a whole number, got `1.5`");
  CHECK(train("epochs: \"3\"") == "a.yaml:2:17: train.epochs: expected a whole number, got the text `3`");
  CHECK(train("epochs: ") == "a.yaml:2:17: train.epochs: expected a whole number, got nothing");
  CHECK(train("epochs: 0") == "a.yaml:2:17: train.epochs: expected 1 to 1000000000, got 0");
  CHECK(train("epochs: 1e300") == "a.yaml:2:17: train.epochs: expected a whole number, got `1e300`");
  CHECK(train("clip_norm: .inf") == "a.yaml:2:20: train.clip_norm: expected a number, got `.inf`");
  CHECK(train("clip_norm: nan") == "a.yaml:2:20: train.clip_norm: expected a number, got `nan`");
  CHECK(train("clip_norm: 0x10") == "a.yaml:2:20: train.clip_norm: expected a number, got `0x10`");
  CHECK(train("label_smoothing: 2") == "a.yaml:2:26: train.label_smoothing: expected 0 to 1, got 2");
  CHECK(train("precision: [f32]") == "a.yaml:2:20: train.precision: expected text, got a list");
  CHECK(refusal_after_model("train: 3\n") == "a.yaml:2:8: expected keys with values in section train, got `3`");
  CHECK(refusal_after_model("freeze: {train: head}\n") ==
        "a.yaml:2:17: freeze.train: expected a list of texts, got `head`");
  for (const std::string value : {"yes", "no", "1", "True", "\"true\""})
    CHECK(refusal_after_model("optimizer: {name: adamw, decay_norm_and_bias: " + value + "}\n")
              .find("optimizer.decay_norm_and_bias: expected true or false, got") != std::string::npos);
  CHECK(refusal_after_model("schedule: {name: step, milestones: 3}\n") ==
        "a.yaml:2:36: schedule.milestones: expected a list of numbers, got `3`");
  CHECK(refusal("model: {name: vit, depth: {a: 1}}\n") ==
        "a.yaml:1:27: model.depth: expected a value or a list of whole numbers, got a section");
  CHECK(refusal("- 1\n") == "a.yaml:1:1: expected sections, got a list");
}

TEST_CASE("configuration: a model is asked about its hyper-parameters") {
  CHECK(refusal("") == "a.yaml:1:1: expected model.name: `lacuna models` lists the names");
  CHECK(refusal("model: {num_classes: 3}\n") == "a.yaml:1:1: expected model.name: `lacuna models` lists the names");
  CHECK(refusal("model: {name: resnet5}\n").find("did you mean \"resnet50\"?") != std::string::npos);
  CHECK(refusal("model: {name: vit, image_size: 32, patch_size: 5, embed_dim: 10, num_heads: 3}\n") ==
        "a.yaml:1:36: model vit: `patch_size` 5 does not divide `image_size` 32\n"
        "a.yaml:1:66: model vit: `num_heads` 3 does not divide `embed_dim` 10");
  CHECK(refusal("model: {name: vit, image_size: 32, patch_size: 4}\ndata: {image_size: 64}\n") ==
        "a.yaml:1:20: model.image_size is 32, but data.image_size is 64");
}

TEST_CASE("configuration: values that do not go together are listed at once, each where it stands") {
  CHECK(refusal("model: {name: vit, image_size: 32, patch_size: 5, num_classes: 3, in_channels: 1}\n"
                "train: {epochs: 3, batch_size: 8, accumulate: 3}\n"
                "optimizer: {name: sgd, nesterov: true}\n"
                "schedule: {name: cosine, warmup_epochs: 7}\n"
                "freeze: {train: [\"head*\"], freeze: [\"norm*\"]}\n") ==
        "a.yaml:1:36: model vit: `patch_size` 5 does not divide `image_size` 32\n"
        "a.yaml:2:35: train.accumulate: expected a divisor of train.batch_size (8), got 3\n"
        "a.yaml:5:1: freeze: expected `train` (only these are trained) or `freeze` (all but these are), got both\n"
        "a.yaml:3:1: optimizer sgd: nesterov needs a momentum above 0\n"
        "a.yaml:4:1: schedule cosine: a warm-up of 7 epochs is longer than the run of 3\n"
        "a.yaml:1:51: model.num_classes is 3, but the data set shapes has 10 classes\n"
        "a.yaml:1:67: model.in_channels is 1, but the images of the data set shapes have 3");
  CHECK(refusal_after_model("schedule: {name: step}\n") ==
        "a.yaml:2:1: schedule step: milestones expected at least one epoch");
}

TEST_CASE("configuration: what is no plain YAML is refused") {
  CHECK(refusal("model: [\n").starts_with("a.yaml:2:1: this is no YAML: "));
  CHECK(refusal("a: 1\n---\nb: 1\n") == "a.yaml:1:1: expected one document, got another after `---`");
  CHECK(refusal_after_model("train: &a {epochs: 1}\ndata: *a\n") ==
        "a.yaml:3:7: aliases (*name) are not part of a configuration; write the value out");
  CHECK(refusal_after_model("train: {epochs: !!int 3}\n") ==
        "a.yaml:2:17: tags (tag:yaml.org,2002:int) are not part of a configuration");
  CHECK(refusal(std::string(100'000, '[')).ends_with("nested more than 16 deep"));
  CHECK(refusal_after_model("<<: {train: {}}\n").starts_with("a.yaml:2:1: unknown section \"<<\""));
  CHECK(refusal_after_model("[a]: 1\n").starts_with("a.yaml:2:1: expected a name as key, got a list"));
  const test::TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(read_configuration(folder / "no.yaml", {}), doctest::Contains("there is no such file"), Error);
  test::write_file(folder / "big.yaml", std::string(2 << 20, ' '));
  CHECK_THROWS_WITH_AS(read_configuration(folder / "big.yaml", {}), doctest::Contains("more than a configuration"),
                       Error);
}

TEST_CASE("configuration: the command line overrides the file") {
  const Configuration configuration = read("train: {epochs: 3, batch_size: 8}\noptimizer: {name: sgd, momentum: 0.9}\n",
                                           {"train.epochs=5", "data.name=cifar10", "freeze.train=[\"head*\"]",
                                            "optimizer={name: adamw, lr: 1e-4}", "model.depth=3"});
  CHECK(configuration.train.epochs == 5);
  CHECK(configuration.train.batch_size == 8);
  CHECK(configuration.data.name == "cifar10");
  CHECK(configuration.freeze.train == std::vector<std::string>{"head*"});
  CHECK(configuration.optimizer.name == "adamw");
  CHECK(configuration.optimizer.options.empty());
  REQUIRE(configuration.model.options.size() == 1);
  CHECK(configuration.model.options[0].value == HyperValue(std::int64_t{3}));

  CHECK(refusal_after_model("", {"epochs"}) == "command line: expected key=value, got `epochs`");
  CHECK(refusal_after_model("", {"train.epoch=3"}) ==
        "command line: unknown key in section train: \"epoch\", did you mean \"epochs\"?");
  CHECK(refusal_after_model("train: {epochs: 1}\n", {"train.epochs.x=3"}) ==
        "command line: \"train.epochs.x\" cannot be set: \"epochs\" is `1`");
  CHECK(refusal_after_model("", {"freeze.train=[*norm]"}).starts_with("command line: this is no YAML"));
}

TEST_CASE("configuration: a policy on the command line begins with its own settings") {
  const std::string fixed = "memory: {policy: fixed, bits: 2, group_size: 64, recompute: [\"blocks.0\"]}\n";
  const Configuration mesa = read(fixed, {"memory.policy=mesa"});
  CHECK(mesa.memory.options.empty());
  CHECK(mesa.memory.recompute == std::vector<std::string>{"blocks.0"});
  CHECK(read(fixed, {"memory.bits=4", "memory.policy=mesa"}).memory.options == SettingValues{{"bits", 4.0}});
  CHECK(read(fixed, {"memory.policy=fixed"}).memory.options == SettingValues{{"bits", 2.0}, {"group_size", 64.0}});
  CHECK(read(fixed, {"memory={policy: adaptive, bits: 3}"}).memory.options == SettingValues{{"bits", 3.0}});
  // The budget and the plan of `auto` go with it.
  const std::string planned = "memory: {policy: auto, budget: 4MiB, budget_of: saved, plan: p.json, codes: true}\n";
  const Configuration exact = read(planned, {"memory.policy=exact"});
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
  const Configuration keys =
      both("train: {epochs: 4, seed: 2}\nmodel: {attention: chain}\nmemory: {recompute: [x]}\n", {"train.seed=5"});
  CHECK(keys.train.epochs == 4);
  CHECK(keys.train.batch_size == 8);
  CHECK(keys.train.seed == 5);  // the command line comes last
  CHECK(keys.model.options.size() == 2);
  CHECK(keys.memory.policy == "mesa");
  CHECK(keys.memory.options == SettingValues{{"decay", 0.5}});
  CHECK(keys.memory.recompute == std::vector<std::string>{"x"});

  // What belongs to another policy or optimizer goes with it, even where the name is the same.
  const Configuration named = both("memory: {policy: adaptive, bits: 2.5}\noptimizer: {name: sgd}\ndata:\ntrain:\n");
  CHECK(named.memory.policy == "adaptive");
  CHECK(named.memory.options == SettingValues{{"bits", 2.5}});
  CHECK(named.optimizer.options.empty());
  CHECK(named.train.epochs == 3);  // a section without keys says nothing

  const auto refused = [&](std::string_view text) -> std::string {
    try {
      both(text);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  const std::string further = (folder / "further.yaml").string();
  CHECK(refused("train: {epoch: 4}\nmemory: 3\n") ==
        further + ":1:9: unknown key in section train: \"epoch\", did you mean \"epochs\"?\n" + further +
            ":2:9: expected keys with values in section memory, got `3`");
  CHECK(refused("memory: {bits: 4, decy: 1}\n").find(further + ":1:19: unknown key of the memory policy mesa") !=
        std::string::npos);
  CHECK(refused("[1]\n") == further + ":1:1: expected sections, got a list");
  CHECK(refused("command: plan\ncases: []\n").starts_with(further + ": this is a sweep"));
}

TEST_CASE("configuration: what is written reads back the same") {
  const Configuration configuration = read(
      "train: {epochs: 7, clip_norm: 0.1}\ndata: {path: \"a: \\\"b\\\" # c\", name: cifar10}\n"
      "optimizer: {name: sgd, lr: 0.3, momentum: 0.9, nesterov: true}\n"
      "schedule: {name: step, milestones: [1, 2.5], gamma: 0.2}\nfreeze: {train: [\"head*\", \"*.bias\"]}\n",
      {"model.depth=3", "model.num_classes=12"});
  const std::string text = to_yaml(configuration);
  const Configuration again = parse_configuration(text, "again.yaml");
  CHECK(to_yaml(again) == text);
  CHECK(again.data.path == "a: \"b\" # c");
  CHECK(again.train.clip_norm == 0.1);
  CHECK(again.optimizer.options == configuration.optimizer.options);
  CHECK(again.schedule.options == configuration.schedule.options);
  CHECK(again.freeze.train == configuration.freeze.train);
  CHECK(again.model.num_classes == 12);
}

TEST_CASE("configuration: docs/configuration.md lists every key as it is") {
  const std::string document = test::read_file(LACUNA_SOURCE_DIR "/docs/configuration.md");
  const std::string table = keys_as_markdown();
  INFO("the table should be:\n", table);
  CHECK(document.find(table) != std::string::npos);
}

}  // namespace lacuna::apps
