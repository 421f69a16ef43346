// The files of configs/: policies that any recipe takes, and sweeps that stand for tables of papers.
#include "apps/config/resolve.h"
#include "apps/sweep/sweep_file.h"
#include "apps/train/measure.h"
#include "ops/kernels/tile_pairs.h"

#include "tests/refusal.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

namespace lacuna::apps {
namespace {

namespace fs = std::filesystem;

// One processor's scratch memory on every machine, as in bench/largest.py, which found the sweeps' largest models: one
// without products of bf16 needs the most. oneDNN reads the variable at its first call.
[[maybe_unused]] const int without_bf16_products = setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);

fs::path configs() { return fs::path(LACUNA_SOURCE_DIR) / "configs"; }

std::vector<std::string> overrides_of(const SweepCase& one) {
  std::vector<std::string> overrides;
  for (const SweepOverride& override : one.overrides) overrides.push_back(override.key + "=" + override.value);
  return overrides;
}

/// A recipe under files of configs/memory, with values on top.
Experiment read_with(const fs::path& recipe, const std::vector<std::string>& names,
                     const std::vector<std::string>& overrides) {
  std::vector<std::string> files{recipe.string()};
  for (const std::string& name : names) files.push_back((configs() / "memory" / (name + ".yaml")).string());
  return read_configuration(files, overrides);
}

/// The overrides, and what a row of bench/largest.py raises one of its steps higher.
std::vector<std::string> one_step_larger(const Experiment& configuration, const std::vector<SweepOverride>& row,
                                         std::vector<std::string> overrides) {
  const auto value = [&](std::string_view key) -> std::string {
    const auto found = std::ranges::find(row, key, &SweepOverride::key);
    return found == row.end() ? "" : found->value;
  };
  const auto raised = [&](std::string_view key) { return value(key).empty() ? 0 : std::stoll(value(key)); };
  const bool is_vit = configuration.model.name.find("resnet") == std::string::npos;
  if (const std::int64_t size = raised("data.image_size"); size > 0) {
    overrides.push_back(fmt::format("data.image_size={}", size + (is_vit ? 16 : 4)));
  } else if (const std::int64_t width = raised("model.base_width"); width > 0) {
    overrides.push_back(fmt::format("model.base_width={}", width + 4));
  } else if (const std::int64_t channels = raised("model.embed_dim"); channels > 0) {
    constexpr std::int64_t head = 64;
    overrides.push_back(fmt::format("model.embed_dim={}", channels + head));
    overrides.push_back(fmt::format("model.num_heads={}", channels / head + 1));
  } else if (const std::int64_t depth = raised("model.depth"); depth > 0) {
    overrides.push_back(fmt::format("model.depth={}", depth + 1));
  } else if (const std::string layers = value("model.layers"); !layers.empty()) {
    const std::size_t third = layers.find(',', layers.find(',') + 1) + 1, end = layers.find(',', third);
    const std::int64_t blocks = std::stoll(layers.substr(third, end - third));
    overrides.push_back(fmt::format("model.layers={}{}{}", layers.substr(0, third), blocks + 1, layers.substr(end)));
  } else {
    overrides.push_back(fmt::format("train.batch_size={}", configuration.train.batch_size + 1));
  }
  return overrides;
}

}  // namespace

TEST_CASE("recipes: any policy goes with any recipe of its family") {
  const auto adaptive = [](double bits) { return std::pair{"adaptive", OptionValues{{"bits", bits}}}; };
  const auto fixed = [](double bits) { return std::pair{"fixed", OptionValues{{"bits", bits}}}; };
  const std::map<std::string, std::pair<std::string, OptionValues>> policies{
      {"mesa", {"mesa", {}}},          {"fixed4", fixed(4)},
      {"adaptive2.5", adaptive(2.5)},  {"gact_l0", {"keep", {}}},
      {"gact_l1", adaptive(4)},        {"gact_l1_3bits", adaptive(3)},
      {"gact_l1_2bits", adaptive(2)},  {"gact_cb1_vit", adaptive(4)},
      {"gact_cb2_vit", adaptive(4)},   {"gact_code_l1", fixed(4)},
      {"gact_code_l1.1", fixed(8)},    {"gact_code_l1.2", fixed(2)},
      {"gact_code_l2", adaptive(4)},   {"gact_code_l2.1", adaptive(3)},
      {"gact_code_l2.2", adaptive(2)}, {"gact_cb2_bert", adaptive(4)}};
  const std::map<std::string, std::string> attentions{{"gact_cb1_vit", "chain"}, {"gact_cb2_vit", "fused"}};
  for (const fs::directory_entry& file : fs::directory_iterator(configs() / "memory")) {
    const std::string name = file.path().stem();
    const std::map<std::string, std::string> recipes{
        {"deit_tiny.yaml", "_vit"}, {"cifar10_resnet20.yaml", "_resnet"}, {"minilm_sst2.yaml", "_bert"}};
    for (const auto& [recipe, suffix] : recipes) {
      const bool is_of_other = std::ranges::any_of(
          recipes, [&](const auto& other) { return other.second != suffix && name.ends_with(other.second); });
      if (is_of_other) continue;
      INFO(name, " over ", recipe);
      const Experiment both = read_with(configs() / recipe, {name}, {"train.batch_size=2"});
      const auto expected = policies.find(name);
      const bool recomputes = name.starts_with("recompute_") || name.starts_with("gact_cb");
      CHECK(both.memory.recompute.empty() != recomputes);
      if (expected != policies.end()) {
        CHECK(both.memory.policy == expected->second.first);
        CHECK(both.memory.options == expected->second.second);
      } else {
        CHECK(name.starts_with("recompute_"));
      }
      if (const auto attention = attentions.find(name); attention != attentions.end())
        test::check_says(to_yaml(both), "attention: " + attention->second);
      CHECK(measure(resolve(both), Device::meta).peak > 0);
    }
  }
}

TEST_CASE("recipes: those for ImageNet load, and a step of them can be planned") {
  for (const fs::directory_entry& file : fs::directory_iterator(configs() / "imagenet")) {
    INFO(file.path().string());
    const Experiment recipe = read_configuration(file.path(), {});
    if (recipe.task.name != "probe") {  // features are of pictures as evaluation sees them
      CHECK(recipe.data.images.augment == "random_resized_crop");
      CHECK(recipe.optimizer.options.at("decay_norm_and_bias") == Tree(false));
    }
    if (recipe.task.name == "distillation") continue;  // it needs a teacher
    const std::vector<std::string> small{"train.batch_size=2", "train.accumulate=1"};
    CHECK(measure(resolve(read_configuration(file.path(), small)), Device::meta).peak > 0);
  }
}

TEST_CASE("recipes: what the sweeps call the largest fits its budget") {
  const auto peak_of = [](const Experiment& configuration) {
    return measure(resolve(configuration), Device::meta).peak;
  };
  const Sweep mesa = read_sweep(configs() / "sweeps/mesa_larger.yaml");
  const SweepCase& first = mesa.cases.front();  // DeiT-B under `keep`, whose peak is the budget of all
  const std::int64_t keep = peak_of(read_configuration(first.configurations, overrides_of(first)));
  // To the width of the tiles that products are cut into, which is the machine's. Pairs of bf16 take less scratch
  // memory.
  const double expected = tile::multiplies_pairs() ? 7.66812 : 7.66825;
  CHECK(static_cast<double>(keep) == doctest::Approx(expected * 0x1p30).epsilon(1e-5));
  const std::map<std::string, std::int64_t> budgets{
      {"gact_largest", std::int64_t{16} << 30}, {"mesa_larger", keep}, {"mesa_larger_32gib", std::int64_t{32} << 30}};
  for (const auto& [name, budget] : budgets) {
    const Sweep sweep = read_sweep(configs() / "sweeps" / (name + ".yaml"));
    CHECK(sweep.cases.size() >= 12);
    for (const SweepCase& one : sweep.cases) {
      const std::vector<std::string> overrides = overrides_of(one);
      const Experiment configuration = read_configuration(one.configurations, overrides);
      const std::int64_t peak = peak_of(configuration);
      INFO(name, ": ", overrides.back());
      CHECK(peak <= budget);
      CHECK(static_cast<double>(peak) > 0.9 * static_cast<double>(budget));
      const Experiment larger =
          read_configuration(one.configurations, one_step_larger(configuration, one.overrides, overrides));
      CHECK(peak_of(larger) > budget);
    }
  }
}

}  // namespace lacuna::apps
