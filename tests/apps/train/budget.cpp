#include "apps/train/budget.h"

#include "apps/train/fit.h"
#include "apps/train/measure.h"
#include "apps/train/memory_plan.h"
#include "apps/train/regions.h"
#include "apps/train/survey.h"
#include "core/error.h"
#include "core/ledger.h"
#include "tests/apps/commands/command_run.h"
#include "tests/apps/train/budgets.h"

#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <tuple>

namespace lacuna::apps {

using namespace budgets;

TEST_CASE("budget: bytes are read with their units") {
  CHECK(parse_bytes("1048576") == 1 << 20);
  CHECK(parse_bytes("1.5KiB") == 1536);
  CHECK(parse_bytes("2 GB") == 2'000'000'000);
  CHECK(parse_bytes("1TB") == 1'000'000'000'000);
  CHECK(parse_bytes("31604.0") == 31604);
  for (const char* wrong : {"", "0.5", "GiB", "-1GiB", "6 gigs", "1e30GiB", "nan", "20480.5", "800"})
    CHECK_THROWS_WITH_AS(parse_bytes(wrong), doctest::Contains("memory.budget: expected bytes"), Error);
}

TEST_CASE("budget: what is chosen fits, and uses 95 % of it wherever anything more fits") {
  std::size_t kept = 0, used_up = 0, left_over = 0;
  for (const char* model : {vit, resnet}) {
    for (const bool codes : {true, false}) {
      const std::int64_t whole = saved(configured(model, "{policy: exact}"));
      for (const double share : {1.0, 0.7, 0.57, 0.5, 0.35, 0.2, 0.15, 0.1}) {
        if (!codes && share < (model == vit ? 0.1 : 0.2)) continue;  // the input and few blocks take more than that
        const auto budget = static_cast<std::int64_t>(share * static_cast<double>(whole));
        const bool measured = share == 0.5 || share == 0.2;  // the others are planned without a step that computes
        Configuration configuration =
            configured(model, fmt::format("{{policy: auto, budget: {}, budget_of: saved, codes: {}}}", budget, codes),
                       measured ? "auto" : "meta");
        fit_budget(configuration, Rates{});
        INFO(std::string(model), " ", share, " of the exact bytes: ", configuration.memory.why);
        const std::int64_t used = saved(configuration);
        CHECK(used <= budget);
        // By exact means alone what is left over is less than one tensor more.
        const std::int64_t block_input = model == vit ? 8 * 65 * 192 * 4 : 8 * 16 * 32 * 32 * 4;
        const bool few = !codes && share <= (model == vit ? 0.2 : 0.35);
        if (few) CHECK(budget - used < block_input);
        if (codes || share != 0.15)  // of which the next tensor of the ViT takes an eighth
          CHECK(static_cast<double>(used) >= (few ? 0.93 : 0.95) * static_cast<double>(budget));
        const bool enough = static_cast<double>(used) >= 0.95 * static_cast<double>(budget);
        ++(enough ? used_up : left_over);
        CHECK(configuration.memory.options.contains("left_over") == !enough);
        if (!enough) {  // by exact means alone a whole tensor is the least that can be kept besides
          CHECK(!codes);
          CHECK(configuration.memory.why.find("the least takes") != std::string::npos);
          CHECK(std::get<double>(configuration.memory.options.at("left_over")) == static_cast<double>(budget - used));
          const RegionChoices choices(survey(configured(model, "{policy: exact}"), {}));
          for (const RegionChange& change : choices.changes(configuration.memory.recompute)) {
            if (!change.only_less) continue;
            Configuration more = configuration;
            more.memory.recompute = change.applied_to(more.memory.recompute);
            CHECK((saved(more) > budget || saved(more) <= used));
          }
        }
        if (!codes) {
          for (const HoldRule& rule : configuration.memory.rules) CHECK(rule.how == HoldRule::How::keep);
          kept += configuration.memory.rules.size();
          for (const Rematerializable& tensor : rematerialized_tensors(configuration, configuration.memory.recompute)) {
            Configuration more = configuration;
            const HoldRule keep{.path = tensor.name.first, .slot = tensor.name.second, .how = HoldRule::How::keep};
            if (std::ranges::find(more.memory.rules, keep) != more.memory.rules.end()) continue;
            more.memory.rules.push_back(keep);
            CHECK((saved(more) > budget || saved(more) == used));
          }
        }
        // The plan is part of the configuration: read again it is not made anew, whatever the machine does by then.
        const Configuration planned = configuration;
        for (const double slower : {1.0, 0.1, 10.0}) {
          fit_budget(configuration, Rates{.dithered = slower * Rates{}.dithered, .rotated = slower * Rates{}.rotated});
          CHECK(to_yaml(configuration) == to_yaml(planned));
        }
        CHECK(parse_configuration(to_yaml(planned), "b.yaml").memory.rules == planned.memory.rules);
      }
    }
  }
  CHECK(kept > 10);
  CHECK(used_up >= 22);
  CHECK(left_over > 0);
}

TEST_CASE("budget: of a peak too 95 % are used") {
  std::size_t planned_ones = 0;  // others are refused
  for (const auto& [model, batch] : std::vector<std::pair<const char*, int>>{{vit, 8}, {vit, 32}, {resnet, 32}}) {
    const auto planned = [&, on = model, of = batch](const std::string& memory) {
      return parse_configuration(
          fmt::format("model: {}\nmemory: {}\ntrain: {{batch_size: {}, device: meta}}\n", on, memory, of), "a.yaml");
    };
    const auto need = [](const Configuration& of) { return highest_need(measure(of, Device::meta)); };
    const std::int64_t whole = need(planned("{policy: exact}"));
    for (const double share : {0.97, 0.93, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6}) {
      const auto budget = static_cast<std::int64_t>(share * static_cast<double>(whole));
      Configuration configuration = planned(fmt::format("{{policy: auto, budget: {}}}", budget));
      try {
        fit_budget(configuration, Rates{});
      } catch (const Error& error) {
        CHECK(std::string(error.what()).find("do not suffice") != std::string::npos);
        continue;
      }
      INFO(std::string(model), " ", batch, " ", share, " of the exact peak: ", configuration.memory.why);
      const std::int64_t used = need(configuration);
      CHECK(used <= budget);
      CHECK(static_cast<double>(used) >= 0.95 * static_cast<double>(budget));
      CHECK(!configuration.memory.options.contains("left_over"));
      ++planned_ones;
    }
  }
  CHECK(planned_ones >= 22);
}

TEST_CASE("budget: where everything fits as it is nothing else is chosen") {
  for (const char* model : {vit, resnet})
    for (const char* codes : {"true", "false"}) {
      const std::int64_t exact = saved(configured(model, "{policy: exact}"));
      for (const double share : {1.0, 1.2, 100.0}) {
        const auto budget = static_cast<std::int64_t>(share * static_cast<double>(exact));
        Configuration configuration =
            configured(model, fmt::format("{{policy: auto, budget: {}, budget_of: saved, codes: {}}}", budget, codes));
        fit_budget(configuration, Rates{});
        INFO(std::string(model), " ", share, " ", configuration.memory.why);
        CHECK(saved(configuration) == exact);
        CHECK(configuration.memory.recompute.empty());
        CHECK(configuration.memory.rules.empty());
        CHECK(configuration.memory.why.find("everything fits as it is") != std::string::npos);
      }
    }
}

TEST_CASE("budget: codes and recomputation are weighed by how long each takes here") {
  const std::int64_t exact = saved(configured(vit, "{policy: exact}"));
  const auto planned = [&](double share, const Rates& rates) {
    Configuration configuration = configured(vit,
                                             fmt::format("{{policy: auto, budget: {}, budget_of: saved}}",
                                                         static_cast<std::int64_t>(share * static_cast<double>(exact))),
                                             "meta");
    fit_budget(configuration, rates);
    INFO(configuration.memory.why);
    CHECK(static_cast<double>(saved(configuration)) <= share * static_cast<double>(exact));
    CHECK(static_cast<double>(saved(configuration)) >= 0.95 * share * static_cast<double>(exact));
    return configuration;
  };
  const auto coded = [](const Configuration& configuration) {
    return std::get<double>(configuration.memory.options.at("bits")) != 32 ||
           std::ranges::any_of(configuration.memory.rules,
                               [](const HoldRule& rule) { return rule.how == HoldRule::How::quantize; });
  };
  const auto keeps = [](const Configuration& configuration) {
    return std::ranges::count(configuration.memory.rules, HoldRule::How::keep, &HoldRule::how);
  };
  constexpr double never = 1e-6, at_once = 1e-16;  // seconds a byte
  for (const double share : {0.8, 0.5}) {
    const Configuration slow = planned(share, {.dithered = never, .rotated = never});
    CHECK(!coded(slow));
    CHECK(!slow.memory.recompute.empty());
    const Configuration fast = planned(share, {.dithered = at_once, .rotated = at_once});
    CHECK(coded(fast));
    CHECK(fast.memory.recompute.empty());
    CHECK(keeps(fast) > 0);  // of what the tensors' bits left over
  }
  // Slow multiplication is a reason to code rather than to compute again.
  CHECK(planned(0.2, {.macs = 1e9}).memory.recompute.empty());
  CHECK(!planned(0.2, {.macs = 1e15, .bytes = 1e13}).memory.recompute.empty());
}

TEST_CASE("regions: the other ways to recompute each block, and what is recomputed together") {
  const RegionChoices choices(survey(configured(vit, "{policy: exact}"), {}));
  REQUIRE(choices.blocks().size() == 6);
  CHECK(choices.parts().size() == 12);
  const RegionPaths recompute{"blocks.0-2", "blocks.3", "blocks.4.attn"};
  std::set<RegionPaths> found;
  for (const RegionChange& change : choices.changes(recompute)) {
    const RegionPaths after = change.applied_to(recompute);
    CHECK(found.insert(after).second);
    // Less: whatever runs again did so before.
    const bool less = std::ranges::all_of(choices.blocks(), [&](const std::string& block) {
      const auto again = [&](const RegionPaths& in, const std::string& path) {
        return std::ranges::any_of(in, [&](const std::string& region) { return lies_in(path, region); });
      };
      return again(recompute, block + ".mlp.fc1") >= again(after, block + ".mlp.fc1") &&
             again(recompute, block + ".attn.qkv") >= again(after, block + ".attn.qkv");
    });
    CHECK(change.only_less == less);
  }
  // Of the three together: none, two times two less, and two cuts; of a block four others each, of which three have
  // two.
  CHECK(found.contains({"blocks.3", "blocks.4.attn", "blocks.0", "blocks.1-2"}));
  CHECK(found.contains({"blocks.0-2", "blocks.3"}));
  CHECK(found.contains({"blocks.0-2", "blocks.4.attn", "blocks.3.attn", "blocks.3.mlp"}));
  CHECK(found.size() == 1 + 4 + 2 + 3 * 4);
}

TEST_CASE("budget: frozen layers are no regions, and what is chosen fits or is refused with the least") {
  // Nothing runs again but what lies in `trained`.
  for (const auto& [model, train, trained] : std::vector<std::tuple<const char*, const char*, std::string>>{
           {"{name: vit_cifar, num_classes: 10, depth: 3}", R"(["head*", "blocks.2*"])", "blocks.2"},
           {"{name: vit_cifar, num_classes: 10, depth: 2}", R"(["head*", "blocks.1*"])", "blocks.1"},
           {resnet, R"(["fc*", "layer3*"])", "layer3"},
           {resnet, R"(["fc*"])", "nothing"}}) {
    const auto frozen = [&, on = model, what = train](const std::string& memory) {
      return parse_configuration(
          fmt::format("model: {}\nmemory: {}\ntrain: {{batch_size: 8}}\nfreeze: {{train: {}}}\n", on, memory, what),
          "a.yaml");
    };
    const std::int64_t whole = saved(frozen("{policy: exact}"));
    int refused = 0, chosen = 0, recomputing = 0;
    for (const double share : {0.9, 0.5, 0.25, 0.1, 0.04, 0.005})
      for (const bool codes : {true, false}) {
        const auto budget = static_cast<std::int64_t>(share * static_cast<double>(whole));
        Configuration configuration =
            frozen(fmt::format("{{policy: auto, budget: {}B, budget_of: saved, codes: {}}}", budget, codes));
        INFO(std::string(model), " ", std::string(train), " ", share, codes ? " codes" : " exact");
        try {
          fit_budget(configuration, Rates{});
          ++chosen;
          CHECK(saved(configuration) <= budget);
          for (const std::string& region : configuration.memory.recompute) CHECK(lies_in(region, trained));
          recomputing += configuration.memory.recompute.empty() ? 0 : 1;
        } catch (const Error& error) {
          ++refused;
          CHECK(std::string(error.what()).find("the least that auto comes to") != std::string::npos);
        }
      }
    // Where the head alone is trained there is nothing to choose.
    CHECK(chosen == (trained == "nothing" ? 0 : 8));
    CHECK(refused == (trained == "nothing" ? 12 : 4));
    CHECK((recomputing > 0) == (trained != "nothing"));
  }
}

TEST_CASE("budget: where little but images can be coded, what is chosen fits, and costs something finite") {
  // Of the first convolution alone, and of the blocks' inputs where they run again.
  const auto frozen = [](std::int64_t budget) {
    return parse_configuration(
        fmt::format("model: {{name: resnet20, num_classes: 10, layers: [3, 3, 3]}}\ntrain: {{batch_size: 64}}\nfreeze: "
                    "{{train: [conv1.weight]}}\nmemory: {{policy: auto, budget: {}, budget_of: saved}}\n",
                    budget),
        "a.yaml");
  };
  int chosen = 0;
  for (std::int64_t budget = 1 << 20; budget < 5 << 19; budget += 100'000) {
    Configuration configuration = frozen(budget);
    INFO(budget);
    if (!refusal(configuration).empty()) continue;
    ++chosen;
    fit_budget(configuration, Rates{});
    CHECK(saved(configuration) <= budget);
    CHECK(configuration.memory.why.find("inf") == std::string::npos);
    CHECK(configuration.memory.why.find("nan") == std::string::npos);
  }
  CHECK(chosen > 8);
}

TEST_CASE("budget: by exact means more bytes come with no more predicted time") {
  for (const char* const model : {"{name: resnet20, num_classes: 10}", vit}) {
    const std::int64_t whole = saved(configured(model, "{policy: exact}"));
    double least = std::numeric_limits<double>::infinity();
    for (int percent = 20; percent <= 100; percent += 5) {
      Configuration configuration = configured(
          model, fmt::format("{{policy: auto, budget: {}, budget_of: saved, codes: false}}", whole * percent / 100));
      INFO(std::string(model), " ", percent);
      fit_budget(configuration, Rates{});
      const std::string& why = configuration.memory.why;
      const std::size_t at = why.find("a step of ");
      REQUIRE((at == std::string::npos) == (percent == 100));
      const double times = percent == 100 ? 1 : std::stod(why.substr(at + 10));
      CHECK(times <= least);
      if (percent == 20) CHECK(times > 1.1);
      least = times;
    }
  }
}

TEST_CASE("budget: the batch keeps 8 bits, and has no part in the division") {
  const StepSurvey found = survey(configured(vit, "{policy: exact}"), {});
  CHECK(std::ranges::count(found.tensors, SavedTensorName{"images", "input"}, &Codable::name) == 0);
  for (const char* memory : {"{policy: fixed, bits: 2}", "{policy: adaptive, bits: 2.5}", "{policy: mesa, bits: 4}",
                             "{policy: auto, bits: 3, rules: [], recompute: [], budget: 1TiB}"}) {
    const Measurement planned = measure(configured(vit, memory), Device::meta);
    constexpr std::int64_t elements = 8 * 32 * 32 * 3;
    // What comes in first stands first.
    CHECK(planned.saved_by_path.front() == std::pair(Label("images"), elements + 4 * elements / 256));
  }
}

TEST_CASE("budget: however few tensors are coded, images are") {
  const std::int64_t whole = saved(configured(vit, "{policy: exact}"));
  bool mostly_exact = false;
  for (const double share : {0.98, 0.95, 0.9, 0.8, 0.6}) {
    Configuration configuration = configured(vit,
                                             fmt::format("{{policy: auto, budget: {}, budget_of: saved}}",
                                                         static_cast<std::int64_t>(share * static_cast<double>(whole))),
                                             "meta");
    fit_budget(configuration, Rates{.macs = 1, .dithered = 1e-16, .rotated = 1e-16});
    INFO(share, " ", configuration.memory.why);
    constexpr std::int64_t elements = 8 * 32 * 32 * 3;
    CHECK(measure(configuration, Device::meta).saved_by_path.front() ==
          std::pair(Label("images"), elements + 4 * elements / 256));
    const std::size_t tensors = survey(configuration, configuration.memory.recompute).tensors.size();
    const auto exact = std::ranges::count(configuration.memory.rules, HoldRule::How::exact, &HoldRule::how);
    mostly_exact = mostly_exact || 2 * static_cast<std::size_t>(exact) > tensors;
  }
  CHECK(mostly_exact);
}

TEST_CASE("budget: a ResNet whose stages fall into uneven pieces is planned, or refused with what would do") {
  int planned = 0;
  for (const char* budget : {"9MiB", "7MiB", "5MiB", "3MiB", "1MiB"})
    for (const char* codes : {"true", "false"}) {
      Configuration configuration =
          configured(resnet, fmt::format("{{policy: auto, budget: {}, budget_of: saved, codes: {}}}", budget, codes));
      INFO(std::string(budget), " ", std::string(codes));
      try {
        fit_budget(configuration, Rates{});
        CHECK(saved(configuration) <= parse_bytes(budget));
        ++planned;
      } catch (const Error& error) {
        CHECK(std::string(error.what()).find("do not suffice") != std::string::npos);
      }
    }
  CHECK(planned == 9);  // but for the least budget by exact means
}

TEST_CASE("budget: a step in more parts codes and derives in each of them") {
  for (const char* const codes : {"true", "false"}) {
    const auto expected = [&](int parts) {
      Configuration configuration =
          configured(vit, fmt::format("{{policy: auto, budget: 10MiB, budget_of: saved, codes: {}}}", codes), "meta");
      configuration.train.batch_size = 8 * parts;
      configuration.train.accumulate = parts;
      fit_budget(configuration, Rates{.dithered = 10 * Rates{}.dithered});
      const std::string& why = configuration.memory.why;
      INFO(why);
      const std::string before = "expected: a step of ";
      const std::size_t at = why.find(before);
      REQUIRE(at != std::string::npos);
      return std::stod(why.substr(at + before.size()));
    };
    const double whole = expected(1);
    CHECK(whole > 1.05);
    CHECK(std::abs(expected(8) - whole) <= 0.02);  // the optimizer works once in either
  }
}

TEST_CASE("budget: with codes too more bytes are not predicted to cost more") {
  // Of so small a model one bit everywhere fits in little more than parts that run again do.
  const auto cost = [](std::int64_t budget) {
    Configuration configuration = parse_configuration(
        fmt::format("model: {{name: vit, image_size: 32, patch_size: 8, embed_dim: 64, depth: 3, num_heads: 2, "
                    "num_classes: 10}}\n"
                    "train: {{batch_size: 32, device: meta}}\nmemory: {{policy: auto, budget: {}}}\n",
                    budget),
        "a.yaml");
    fit_budget(configuration, Rates{});
    const std::string& why = configuration.memory.why;
    INFO(why);
    const auto number_before = [&](std::string_view after) {
      const std::size_t end = why.find(after);
      return end == std::string::npos ? 0 : std::stod(why.substr(why.rfind(' ', end - 1) + 1));
    };
    const double seconds = number_before(" x the time of an exact one");
    CHECK(seconds > 1);
    return seconds * (1 + number_before(" % more variance") / 100);
  };
  double before = std::numeric_limits<double>::infinity();
  for (std::int64_t budget = 4'850'000; budget < 5'600'000; budget += 25'000) {
    const double now = cost(budget);
    CHECK(now <= before + 0.01);  // as many digits as it says
    before = now;
  }
  CHECK(before < 1.2);
}

TEST_CASE("budget: what is chosen is among the figures") {
  Configuration configuration = configured(vit, "{policy: auto, budget: 4MiB, budget_of: saved}");
  fit_budget(configuration, Rates{});
  const auto chosen = to_json(measure(configuration, Device::meta)).at("chosen");
  CHECK(chosen.at("why").get<std::string>() == configuration.memory.why);
  CHECK(chosen.at("bits").get<double>() == std::get<double>(configuration.memory.options.at("bits")));
  CHECK(chosen.at("recompute").size() == configuration.memory.recompute.size());
  REQUIRE(chosen.at("rules").size() == configuration.memory.rules.size());
  REQUIRE(!configuration.memory.rules.empty());
  CHECK(chosen.at("rules")[0].at("hold").get<std::string>() == hold_text(configuration.memory.rules[0]));
  CHECK(!to_json(measure(configured(vit, "{policy: exact}"), Device::meta)).contains("chosen"));
}

TEST_CASE("budget: the peak of a real step is the one planned") {
  Configuration configuration = configured(vit, "{policy: auto, budget: 50MiB}");
  fit_budget(configuration);  // by this machine's rates
  INFO(configuration.memory.why);
  const Measurement planned = measure(configuration, Device::meta);
  CHECK(planned.peak <= 50 << 20);
  CHECK(static_cast<double>(planned.peak) >= 0.95 * (50 << 20));
  const std::int64_t peak = measure(configuration, Device::cpu).peak;
  CHECK(peak <= 50 << 20);
  CHECK(peak == planned.peak);
}

TEST_CASE("budget: no real run is over it, evaluation, loader and checkpoints included") {
  struct Wish {
    std::string of;
    double share;
    bool codes;
  };
  struct Case {
    const char* model;
    std::vector<std::string> settings;
    std::vector<Wish> wishes;
  };
  const std::vector<Wish> all{
      {"peak", 0.75, true}, {"peak", 0.85, false}, {"saved", 0.12, true}, {"saved", 0.5, false}};
  const char *const small_vit = "{name: vit_cifar, depth: 3}", *const small_resnet = "{name: resnet20}";
  const Case cases[] = {
      {small_vit, {}, all},
      {small_resnet, {}, all},
      {small_vit, {"train.precision=bf16"}, {{"peak", 0.85, true}, {"saved", 0.3, true}}},
      {small_resnet, {"train.accumulate=4", "train.precision=bf16"}, {{"peak", 0.9, true}}},
      {small_vit, {"train.accumulate=4", "train.ema_decay=0.9"}, {{"peak", 0.95, true}, {"saved", 0.5, false}}},
      {small_vit, {"optimizer.in_backward=true", "train.clip_norm=1"}, {{"peak", 0.8, true}}},
      {small_resnet, {"optimizer.in_backward=true", "train.ema_decay=0.9"}, {{"peak", 0.7, false}}}};
  const test::TemporaryFolder folder;
  for (const auto& [model, settings, wishes] : cases) {
    test::write_file(folder / "c.yaml", fmt::format("model: {}\ndata: {{name: shapes, train_size: 48, val_size: 24}}\n"
                                                    "train: {{epochs: 1, batch_size: 16}}\n",
                                                    model));
    const auto run = [&, &own = settings](std::vector<std::string> arguments) {
      arguments.insert(arguments.end(), own.begin(), own.end());
      return test::run_command(folder, std::move(arguments));
    };
    const auto exact = run({"plan", "-c", "c.yaml", "--json", "-"}).json();
    for (const auto& [of, share, codes] : wishes) {
      const auto budget = static_cast<std::int64_t>(share * exact.at("memory").at(of).get<double>());
      INFO(std::string(model), " ", fmt::format("{}", fmt::join(settings, " ")), ": ", share, " of ", of,
           ", codes: ", codes);
      const test::CommandResult result =
          run({"train", "-c", "c.yaml", "--overwrite", "output.dir=run",
               fmt::format("memory={{policy: auto, budget: {}, budget_of: {}, codes: {}}}", budget, of, codes)});
      INFO(result.out, result.error);
      REQUIRE(result.code == 0);
      const auto summary = nlohmann::json::parse(test::read_file(folder / "run/summary.json"));
      CHECK(summary.at("memory").at(of) <= budget);
      std::istringstream metrics(test::read_file(folder / "run/metrics.jsonl"));
      std::int64_t highest = 0, steps = 0;
      for (std::string line; std::getline(metrics, line);)
        if (const auto step = nlohmann::json::parse(line); step.contains("peak")) {
          highest = std::max(highest, step.at("peak").get<std::int64_t>());
          ++steps;
        }
      CHECK(steps >= 3);
      if (of == "peak") CHECK(highest <= budget);
    }
  }
}

TEST_CASE("budget: what no choice fits is refused before anything is computed") {
  const std::int64_t least = least_need(configured(vit, "{policy: exact}"), 0);
  for (const std::string& budget :
       {fmt::format("budget: {}", least - 1), std::string("budget: 1KiB, budget_of: saved")}) {
    ledger(Device::cpu).reset_peak();
    const std::int64_t before = ledger(Device::cpu).peak();
    CHECK(refusal(configured(vit, fmt::format("{{policy: auto, {}}}", budget))).find("do not suffice") !=
          std::string::npos);
    CHECK(ledger(Device::cpu).peak() == before);
  }
}

TEST_CASE("budget: a refusal names what can still help, and nothing else") {
  const auto refused = [](const std::string& optimizer, const std::string& train, const std::string& memory) {
    return refusal(parse_configuration(
        fmt::format("model: {}\noptimizer: {{name: adamw, {}}}\ntrain: {{batch_size: 8}}\nfreeze: {{train: {}}}\n"
                    "memory: {{policy: auto, budget: 4096, {}}}\n",
                    vit, optimizer, train, memory),
        "a.yaml"));
  };
  const auto names = [](const std::string& text, std::string_view what) {
    return text.find(what) != std::string::npos;
  };
  const std::string all = refused("lr: 1e-3", "[\"*\"]", "codes: false");
  for (const char* const way : {"memory.codes: true", "optimizer.in_backward", "optimizer.state", "frozen part"})
    CHECK_MESSAGE(names(all, way), all);
  const std::string set = refused("lr: 1e-3, in_backward: true, state: int8", "[\"*\"]", "codes: true");
  for (const char* const way : {"memory.codes", "optimizer."}) CHECK_MESSAGE(!names(set, way), set);
  CHECK_MESSAGE(names(set, "less with a frozen part of the model."), set);
  // What the head's gradients and state take is next to nothing.
  const std::string head = refused("lr: 1e-3", "[\"head*\"]", "codes: true");
  for (const char* const way : {"optimizer.", "frozen part"}) CHECK_MESSAGE(!names(head, way), head);
}

TEST_CASE("budget: what no choice fits is refused with the least that would") {
  CHECK(refusal(configured(vit, "{policy: auto}")) ==
        "memory.policy: auto needs memory.budget: how much memory there is, as 6GiB");
  CHECK(refusal(configured(vit, "{policy: auto, budget: 1MiB, recompute: [\"blocks.*\"]}")).find("chooses") !=
        std::string::npos);
  // As much as the message says is enough, and a byte less is not.
  const auto least_of = [&](const std::string& refused) {
    const std::size_t begin = refused.rfind('('), end = refused.rfind(" bytes)");
    REQUIRE(begin < end);
    return refused.substr(begin + 1, end - begin - 1);
  };
  for (const std::string rest : {"budget_of: saved", "budget_of: saved, codes: false", "codes: false", "codes: true"}) {
    // A residual network whose first blocks hold most: with all of them run again, the last one is the peak.
    for (const std::string& model : {std::string(vit), std::string("{name: resnet18_cifar, num_classes: 10}")}) {
      INFO(model, rest);
      const auto refused_at = [&](std::int64_t bytes) {
        return refusal(configured(model, fmt::format("{{policy: auto, budget: {}, {}}}", bytes, rest)));
      };
      const std::string least = least_of(refused_at(4096));
      CHECK(refused_at(std::stoll(least)).empty());
      CHECK(least_of(refused_at(std::stoll(least) - 1)) == least);
    }
  }
  // A block within which one part runs again holds less than one within which all do.
  const std::string nested = "recompute: [\"blocks.*\", \"blocks.*.attn\"]";
  const std::int64_t by_hand =
      highest_need(measure(configured(vit, fmt::format("{{policy: exact, {}}}", nested)), Device::meta));
  CHECK(std::stoll(least_of(refusal(configured(vit, "{policy: auto, budget: 4096, codes: false}")))) <= by_hand);
  // What a block holds while it runs again is the peak here: parts of one name take less than all.
  const auto small = [](const std::string& memory) {
    return parse_configuration(
        "model: {name: vit_cifar, num_classes: 10, depth: 3, embed_dim: 48, num_heads: 3}\nmemory: " + memory +
            "\ntrain: {batch_size: 32}\n",
        "a.yaml");
  };
  const std::int64_t least = std::stoll(least_of(refusal(small("{policy: auto, budget: 1KiB}"))));
  CHECK(least <= highest_need(measure(small("{policy: fixed, bits: 1, recompute: [\"*.attn\"]}"), Device::meta)));
}

TEST_CASE("budget: tensors of one op and path have bits of their own") {
  Configuration configuration = configured(vit, "{policy: auto, budget: 4MiB, budget_of: saved}");
  fit_budget(configuration, Rates{});
  const Measurement planned = measure(configuration, Device::meta);
  const StepSurvey found = survey(configuration, configuration.memory.recompute);
  std::set<SavedTensorName> names;
  for (const Codable& tensor : found.tensors) CHECK(names.insert(tensor.name).second);
  CHECK(names.contains({"blocks.3", "add"}));
  CHECK(names.contains({"blocks.3", "add #2"}));
  for (const HoldRule& rule : configuration.memory.rules) {
    CHECK(rule.op == "*");
    CHECK((rule.how == HoldRule::How::keep || names.contains({rule.path, rule.slot})));
  }
  // Each is written as its own, and read as that.
  MemoryPlan plan{.bits = 4, .others = {{{"blocks.3", "add #2"}, 8}, {{"blocks.2", "add"}, exact_bits}}};
  write_plan(plan, configuration.memory);
  CHECK(parse_configuration(to_yaml(configuration), "b.yaml").memory.rules == configuration.memory.rules);
  const MemoryPlan again = read_plan(configuration.memory, found);
  CHECK(again.bits == plan.bits);
  CHECK(again.others == plan.others);
}

TEST_CASE("budget: what was not measured counts as the optimizer takes errors") {
  const auto more_variance = [](const char* optimizer) {
    Configuration configuration = configured(vit, "{policy: auto, budget: 4MiB, budget_of: saved}", "meta");
    configuration.optimizer.name = optimizer;
    fit_budget(configuration, Rates{.macs = 1, .dithered = 1e-16, .rotated = 1e-16});
    const std::string& why = configuration.memory.why;
    INFO(why);
    const std::size_t end = why.find(" % more variance of the gradient (by size, not measured)");
    REQUIRE(end != std::string::npos);
    return std::stod(why.substr(why.rfind(' ', end - 1) + 1));
  };
  // By rows, for what divides by the gradient's size, codes err three times as much.
  CHECK(more_variance("adamw") / more_variance("sgd") ==
        doctest::Approx(0.2115 * 0.2115 / (0.0697 * 0.0697)).epsilon(0.06));
}

TEST_CASE("budget: where images want a gradient, the step that has it is the one that fits") {
  for (const char* freeze : {R"({train: ["head*"]})", R"({freeze: ["*"]})"})
    for (const char* codes : {"true", "false"}) {
      Configuration configuration =
          parse_configuration(fmt::format("model: {}\ntrain: {{batch_size: 8}}\nfreeze: {}\n"
                                          "memory: {{policy: auto, budget: 4MiB, budget_of: saved, codes: {}}}\n",
                                          vit, freeze, codes),
                              "a.yaml");
      configuration.image_gradient = true;
      fit_budget(configuration, Rates{});
      INFO(std::string(freeze), " ", configuration.memory.why);
      CHECK(saved(configuration) <= 4 << 20);
      CHECK(configuration.memory.why.find("everything fits as it is") == std::string::npos);
    }
}

}  // namespace lacuna::apps
