// Memory plans for a budget: what holds of every plan, and how a run keeps its own.
#include "apps/train/planning.h"

#include "apps/train/fit.h"
#include "apps/train/measure.h"
#include "core/error.h"
#include "models/registry.h"
#include "tests/apps/commands/command_run.h"

#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lacuna::apps {
namespace {

constexpr const char* vit = "{name: vit_cifar, num_classes: 10, depth: 6}";
constexpr const char* small_vit = "{name: vit_cifar, num_classes: 10, depth: 2}";
constexpr const char* resnet = "{name: resnet20, num_classes: 10}";

Experiment configured(const std::string& model, const std::string& memory, const std::string& train = "") {
  return parse_configuration(
      fmt::format("model: {}\nmemory: {}\ntrain: {{batch_size: 8, device: meta{}}}\n", model, memory, train), "a.yaml");
}

Experiment planned(Experiment configuration) {
  plan_memory(configuration, CostTable{});
  return configuration;
}

std::string refusal(const Experiment& configuration) {
  try {
    planned(configuration);
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::input);
    return error.what();
  }
  return {};
}

/// The part of the budget that a step on `meta` uses.
std::int64_t used(const Experiment& configuration) {
  const Measurement measured = measure(configuration, Device::meta);
  return configuration.memory.budget_of == "saved" ? at(measured.memory, Purpose::saved) : highest_need(measured);
}

/// The same where nothing is planned.
double exact_bytes(const std::string& model, const std::string& of) {
  Experiment exact = configured(model, "{policy: exact}");
  exact.memory.budget_of = of;
  return static_cast<double>(used(exact));
}

std::string with_budget(double bytes, const std::string& of, bool codes) {
  return fmt::format("{{policy: auto, budget: {}, budget_of: {}, codes: {}}}", static_cast<std::int64_t>(bytes), of,
                     codes);
}

/// The least bytes that a plan takes, as a refusal says.
double least_in(const std::string& refused) {
  const std::size_t end = refused.rfind(" bytes)"), begin = refused.rfind('(', end) + 1;
  REQUIRE(end != std::string::npos);
  return std::stod(refused.substr(begin, end - begin));
}

}  // namespace

TEST_CASE("plan: a budget holds for the longest texts and for the most hidden tokens that a batch can draw") {
  const auto of_text = [](const std::string& length, const std::string& memory, const std::string& task,
                          const std::string& device = "meta") {
    return parse_configuration(
        fmt::format(
            "model: {{name: bert, vocab_size: 3000, hidden_size: 32, num_hidden_layers: 1, num_attention_heads: "
            "2, intermediate_size: 64, max_position_embeddings: 64}}\n"
            "data: {{name: random_tokens, length: {}, vocabulary: 3000}}\nmemory: {}\ntask: {}\n"
            "train: {{batch_size: 16, threads: 1, device: {}}}\n",
            length, memory, task, device),
        "a.yaml");
  };
  const std::string budget = "{policy: auto, budget: 1GiB}", classes = "{name: classification}";
  const std::int64_t longest = used(planned(of_text("64", budget, classes)));
  const Experiment drawn = planned(of_text("[8, 8, 8, 64]", budget, classes));
  CHECK(used(drawn) == longest);
  CHECK(drawn.plan->bytes == longest);
  const Experiment exact = of_text("[8, 8, 8, 64]", "{policy: exact}", classes);
  CHECK(used(exact) < longest);
  CHECK(plan_within(*setup_to_plan(exact), exact, "1GiB").plan.bytes == longest);
  // 16 · 64 tokens, of which 154 are expected to be hidden: six deviations are 69 more.
  const std::string masked = "{name: masked_lm, mask_id: 4}";
  const Experiment made = of_text("64", "{policy: exact}", masked, "cpu");
  const auto saved = [&](Device device) { return at(measure(made, device).memory, Purpose::saved); };
  const std::int64_t of_row = 32 * 4 + 8;  // its values and its label
  CHECK(saved(Device::meta) - saved(Device::cpu) > 30 * of_row);
}

TEST_CASE("plan: bytes are read with their units") {
  CHECK(parse_bytes("1048576") == 1 << 20);
  CHECK(parse_bytes("1.5KiB") == 1536);
  CHECK(parse_bytes("2 GB") == 2'000'000'000);
  CHECK(parse_bytes("1TB") == 1'000'000'000'000);
  CHECK(parse_bytes("31604.0") == 31604);
  for (const char* wrong : {"", "0.5", "GiB", "-1GiB", "6 gigs", "1e30GiB", "nan", "20480.5", "800"})
    CHECK_THROWS_AS(parse_bytes(wrong), Error);
}

TEST_CASE("plan: fits, uses the budget, has the bytes of a step on meta, and is not slower with more budget") {
  for (const char* const model : {vit, resnet})
    for (const char* const of : {"saved", "peak"})
      for (const bool codes : {true, false}) {
        const double whole = exact_bytes(model, of);
        double before = std::numeric_limits<double>::infinity();
        const bool of_saved = std::string_view(of) == "saved";
        for (const double part :
             of_saved ? std::vector{0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 1.0} : std::vector{0.8, 0.85, 0.9, 0.95, 1.0}) {
          const Experiment wish = configured(model, with_budget(part * whole, of, codes));
          INFO(std::string(model), " ", part, " of ", std::string(of), ", codes: ", codes);
          if (const std::string refused = refusal(wish); !refused.empty()) {
            CHECK_MESSAGE(least_in(refused) > part * whole, refused);
            continue;
          }
          const Experiment configuration = planned(wish);
          const MemoryPlan& plan = *configuration.plan;
          INFO(plan.text);
          CHECK(static_cast<double>(plan.bytes) <= part * whole);
          CHECK(plan.bytes == used(configuration));
          if (codes) CHECK(static_cast<double>(plan.bytes) >= 0.95 * part * whole);
          CHECK((codes || !plan.quantizes()));
          CHECK(plan.cost() <= before * 1.002);  // several candidates are tried, not all
          before = plan.cost();
          CHECK((part < 1 || (plan.tensors.empty() && plan.regions.empty())));
          // The wish stays as it was.
          CHECK(to_yaml(configuration) == to_yaml(wish));
        }
        CHECK(before == 1);
      }
}

TEST_CASE("plan: by exact means alone nothing is left that would fit") {
  const double whole = exact_bytes(vit, "saved");
  for (const double part : {0.15, 0.3, 0.6}) {
    const Experiment configuration = planned(configured(vit, with_budget(part * whole, "saved", false)));
    const MemoryPlan& plan = *configuration.plan;
    INFO(plan.text);
    CHECK(static_cast<double>(plan.bytes) >= 0.85 * part * whole);
    for (const std::string& region : plan.regions) {
      Experiment more = configuration;
      std::erase(more.plan->regions, region);
      more.plan->tensors.clear();
      CHECK(static_cast<double>(used(more)) > part * whole);
    }
  }
}

TEST_CASE("plan: what no plan fits is refused with the least that one takes, and that is enough") {
  test::check_says(refusal(configured(vit, "{policy: auto}")), "memory.budget");
  test::check_says(refusal(configured(vit, "{policy: auto, budget: 1MiB, recompute: [\"blocks.*\"]}")), "recompute");
  for (const std::string& model : {std::string(vit), std::string("{name: resnet18_cifar, num_classes: 10}")})
    for (const char* const of : {"saved", "peak"})
      for (const bool codes : {true, false}) {
        const std::string text = refusal(configured(model, with_budget(4096, of, codes)));
        INFO(text);
        const double least = least_in(text);
        CHECK(refusal(configured(model, with_budget(least, of, codes))).empty());
        CHECK(!refusal(configured(model, with_budget(0.95 * least, of, codes))).empty());
      }
}

TEST_CASE("plan: tensors are quantized by how sensitive the gradient is to them, as one short step measures") {
  Experiment configuration = configured(small_vit, with_budget(0.35 * exact_bytes(small_vit, "saved"), "saved", true));
  configuration.train.device = "cpu";
  const MemoryPlan plan = *planned(configuration).plan;
  INFO(plan.text);
  CHECK(plan.variance > 0);
  std::vector<int> widths;
  for (const auto& [key, choice] : plan.tensors)
    if (!choice.kept && std::ranges::find(widths, choice.bits) == widths.end()) widths.push_back(choice.bits);
  CHECK(widths.size() > 1);
  CHECK(*planned(configuration).plan == plan);  // the same again
}

TEST_CASE("plan: the model that the checks built is planned with, and one more is built where a plan is measured") {
  static int builds = 0;
  ModelFamily counted = model_families().get("vit");
  counted.build = [](const Options& options, const ModelContext& context) {
    ++builds;
    return model_families().get("vit").build(options, context);
  };
  model_families().add("counted_vit", counted);
  for (const bool codes : {true, false}) {
    Experiment configuration =
        configured("{name: counted_vit, image_size: 32, patch_size: 8, depth: 2, embed_dim: 48, num_heads: 3}",
                   with_budget(200 << 10, "saved", codes));
    configuration.train.device = "cpu";
    builds = 0;
    plan_memory(configuration, CostTable{});
    CHECK(configuration.plan->quantizes() == codes);
    CHECK(builds == (codes ? 1 : 0));
    measure(configuration, Device::meta);
    CHECK(builds <= 2);
  }
}

TEST_CASE("plan: the step in several micro-batches, frozen layers and a gradient of the images") {
  const Experiment parts =
      planned(configured(vit, "{policy: auto, budget: 3MiB, budget_of: saved}", ", accumulate: 2"));
  CHECK(used(parts) <= 3 << 20);
  CHECK(parts.plan->bytes == used(parts));
  for (const char* const freeze : {R"({train: ["head*"]})", R"({freeze: ["*"]})"}) {
    const auto with_precision = [&](const char* precision) {
      Experiment configuration =
          parse_configuration(fmt::format("model: {}\ntrain: {{batch_size: 8, device: meta, precision: {}}}\n"
                                          "freeze: {}\nmemory: {{policy: auto, budget: 4MiB, budget_of: saved}}\n",
                                          vit, precision, freeze),
                              "a.yaml");
      configuration.image_gradient = true;
      return configuration;
    };
    Experiment half = with_precision("bf16");
    plan_memory(half, CostTable{});
    CHECK(used(half) <= 4 << 20);
    Experiment configuration = with_precision("f32");
    plan_memory(configuration, CostTable{});
    CHECK(used(configuration) <= 4 << 20);
    CHECK((configuration.plan->quantizes() || !configuration.plan->regions.empty()));
  }
}

TEST_CASE("plan: a file is read as it was written, and replayed to the same bytes") {
  for (const bool codes : {true, false}) {
    const Experiment configuration = planned(configured(vit, with_budget(4 << 20, "saved", codes)));
    const MemoryPlan& plan = *configuration.plan;
    CHECK(parse_plan(to_json(plan), "plan.json") == plan);
    const test::TemporaryFolder folder;
    test::write_file(folder / "plan.json", to_json(plan));
    const Experiment replayed =
        planned(configured(vit, fmt::format("{{policy: auto, plan: {}}}", (folder / "plan.json").string())));
    CHECK(replayed.plan->tensors == plan.tensors);
    CHECK(at(measure(replayed, Device::meta).memory, Purpose::saved) == plan.bytes);
    // For another batch it says what it takes there, not what it took.
    const Experiment smaller = planned(
        configured(vit, fmt::format("{{policy: auto, plan: {}}}", (folder / "plan.json").string()), ", accumulate: 2"));
    CHECK(smaller.plan->text != plan.text);
    test::check_says(smaller.plan->text, format_bytes(smaller.plan->bytes));
    // Another model has none of these tensors.
    const std::string refused =
        refusal(configured(resnet, fmt::format("{{policy: auto, plan: {}}}", (folder / "plan.json").string())));
    test::check_says(refused, codes ? "blocks.0" : "blocks.");
    // Nor is one used that takes more than the budget.
    CHECK(!refusal(configured(vit, fmt::format("{{policy: auto, plan: {}, budget: 1MiB, budget_of: saved}}",
                                               (folder / "plan.json").string())))
               .empty());
  }
  for (const char* const wrong : {"", "[]", "{}", R"({"text": "", "bytes": -1})",
                                  R"({"text": "", "bytes": 1, "seconds": 1, "variance": 0, "group_size": 256,
                                      "regions": [], "tensors": {"a b": 9}})"})
    CHECK_THROWS_AS(parse_plan(wrong, "plan.json"), Error);
}

TEST_CASE("plan: a run keeps its plan in plan.json, and goes on with it while it fits") {
  const test::TemporaryFolder folder(
      "model: {name: vit_cifar, depth: 3}\ndata: {name: shapes, train_size: 96, val_size: 24}\n"
      "train: {epochs: 1, batch_size: 16, steps: 1}\n"
      "memory: {policy: auto, budget: 4MiB, budget_of: saved}\n");
  REQUIRE(test::run_command(folder, {"train", "-c", "c.yaml", "output.dir=run"}).code == 0);
  const std::string plan = test::read_file(folder / "run/plan.json");
  CHECK(parse_plan(plan, "plan.json").bytes <= 4 << 20);
  CHECK(test::read_file(folder / "run/config.yaml").find("hold: int") == std::string::npos);
  // A larger budget keeps the plan; a smaller one and other frozen layers do not.
  const auto go_on = [&](std::vector<std::string> changes) {
    changes.insert(changes.begin(), {"train", "--resume", "run"});
    const test::CommandResult result = test::run_command(folder, std::move(changes));
    INFO(result.error);
    CHECK(result.code == 0);
    return test::read_file(folder / "run/plan.json");
  };
  CHECK(go_on({"train.steps=2", "memory.budget=5MiB"}) == plan);
  CHECK(go_on({"train.steps=3", "memory.budget=3MiB"}) != plan);
  test::write_file(folder / "run/plan.json", "damaged");
  CHECK(parse_plan(go_on({"train.steps=4"}), "plan.json").bytes <= 4 << 20);
}

TEST_CASE("plan: the peak of a real step is the one planned") {
  const double budget = 0.93 * exact_bytes(small_vit, "peak");
  Experiment configuration = configured(small_vit, with_budget(budget, "peak", true));
  configuration.train.device = "cpu";
  plan_memory(configuration, CostTable{});
  CHECK(configuration.plan->quantizes());
  INFO(configuration.plan->text);
  const std::int64_t peak = measure(configuration, Device::cpu).peak;
  CHECK(static_cast<double>(peak) <= budget);
  CHECK(peak == measure(configuration, Device::meta).peak);
}

TEST_CASE("plan: on a GPU a budget holds with the inputs of captured steps, and advice of one is taken") {
  const auto on_card = [](const std::string& memory, bool graph, std::int64_t parts) {
    Experiment configuration = parse_configuration(
        fmt::format("model: {{name: vit, image_size: 64, patch_size: 8, embed_dim: 32, depth: 2, num_heads: 2}}\n"
                    "data: {{name: shapes}}\nmemory: {}\n"
                    "train: {{batch_size: 64, accumulate: {}, graph: {}, device: cuda}}\n",
                    memory, parts, graph),
        "a.yaml");
    configuration.process.card = Card{.memory = std::int64_t{24} << 30};
    return configuration;
  };
  for (const bool graph : {true, false})
    for (const std::int64_t parts : {1, 2}) {
      CAPTURE(graph);
      CAPTURE(parts);
      const Experiment exact = on_card("{policy: exact}", graph, parts);
      const std::int64_t room = used(exact) - 1;
      const auto within = [&](const std::string& budget) {
        const Experiment configuration =
            planned(on_card(fmt::format("{{policy: auto, budget: {}}}", budget), graph, parts));
        CHECK(configuration.plan->bytes == used(configuration));
        return used(configuration);
      };
      for (const std::int64_t budget : {room, room * 97 / 100}) CHECK(within(fmt::format("{}B", budget)) <= budget);
      Setup setup(exact, Device::meta);
      const std::string advice = what_would_fit(setup, exact, room, true, room + 1);
      INFO(advice);
      constexpr std::string_view key = "memory.budget=";
      const std::size_t begin = advice.find(key);
      REQUIRE(begin != std::string::npos);
      const std::size_t value = begin + key.size();
      CHECK(within(advice.substr(value, advice.find(':', value) - value)) <= room);
    }
}

TEST_CASE("plan: no real run is over its budget, evaluation, loader and checkpoints included") {
  struct Case {
    const char* model;
    std::vector<std::string> settings;
    std::string of;
    double part;
    bool codes;
  };
  const char *const small_vit = "{name: vit_cifar, depth: 3}", *const small_resnet = "{name: resnet20}";
  const Case cases[] = {{small_vit, {}, "peak", 0.75, true},
                        {small_vit, {}, "saved", 0.5, false},
                        {small_resnet, {}, "peak", 0.85, false},
                        {small_resnet, {"train.accumulate=4", "train.precision=bf16"}, "peak", 0.9, true},
                        {small_vit, {"train.precision=bf16"}, "saved", 0.3, true},
                        {small_vit, {"optimizer.in_backward=true", "train.clip_norm=1"}, "peak", 0.8, true}};
  const test::TemporaryFolder folder;
  for (const auto& [model, settings, of, part, codes] : cases) {
    test::write_file(folder / "c.yaml", fmt::format("model: {}\ndata: {{name: shapes, train_size: 48, val_size: 24}}\n"
                                                    "train: {{epochs: 1, batch_size: 16}}\n",
                                                    model));
    const auto run = [&, &own = settings](std::vector<std::string> arguments) {
      arguments.insert(arguments.end(), own.begin(), own.end());
      return test::run_command(folder, std::move(arguments));
    };
    const auto exact = run({"plan", "-c", "c.yaml", "--json", "-"}).json();
    const double budget = part * exact.at("memory").at(of).get<double>();
    INFO(std::string(model), " ", fmt::format("{}", fmt::join(settings, " ")), ": ", part, " of ", of);
    const test::CommandResult result =
        run({"train", "-c", "c.yaml", "--overwrite", "output.dir=run", "memory=" + with_budget(budget, of, codes)});
    INFO(result.error);
    REQUIRE(result.code == 0);
    const auto summary = nlohmann::json::parse(test::read_file(folder / "run/summary.json"));
    CHECK(summary.at("memory").at(of).get<double>() <= budget);
  }
}

TEST_CASE("plan: its choices are among the figures of a measurement") {
  const Experiment configuration = planned(configured(vit, "{policy: auto, budget: 4MiB, budget_of: saved}"));
  const auto plan = to_json(measure(configuration, Device::meta)).at("plan");
  CHECK(plan.at("text") == configuration.plan->text);
  CHECK(plan.at("tensors").size() == configuration.plan->tensors.size());
  CHECK(!to_json(measure(configured(vit, "{policy: exact}"), Device::meta)).contains("plan"));
}

}  // namespace lacuna::apps
