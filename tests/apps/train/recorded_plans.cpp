// What becomes of a budget's plan that a run has recorded: it is kept where it still does, and made anew elsewhere.
#include "apps/train/budget.h"
#include "apps/train/measure.h"
#include "apps/train/memory_plan.h"
#include "apps/train/survey.h"
#include "core/error.h"
#include "tests/apps/commands/command_run.h"
#include "tests/apps/train/budgets.h"

#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

namespace lacuna::apps {

using namespace budgets;

TEST_CASE("budget: a run goes on with the plan that it recorded, wherever that is what it asks for") {
  const Configuration wish = configured(vit, "{policy: auto, budget: 4MiB, budget_of: saved}");
  Configuration recorded = wish;
  fit_budget(recorded, Rates{});
  const auto taken = [&](const Configuration::Memory& by) {
    Configuration::Memory memory = by;
    take_plan(recorded.memory, memory);
    return memory.options.contains("bits") && memory.rules == recorded.memory.rules &&
           memory.recompute == recorded.memory.recompute;
  };
  CHECK(taken(wish.memory));
  CHECK(
      taken(configured(vit, "{policy: auto, budget: 5MiB, budget_of: saved}").memory));  // whether it does is seen then
  CHECK(!taken(configured(vit, "{policy: auto, budget: 4MiB, codes: false}").memory));
  CHECK(!taken(configured(vit, "{policy: auto, budget: 4MiB, group_size: 64}").memory));
  CHECK(!taken(configured(vit, "{policy: mesa}").memory));
  Configuration::Memory forgotten = recorded.memory;
  forget_plan(forgotten);
  CHECK(!forgotten.options.contains("bits"));
  CHECK(taken(forgotten));
}

TEST_CASE("budget: a plan is kept while it fits, and made anew when it does not") {
  Configuration planned = configured(vit, "{policy: auto, budget: 4MiB, budget_of: saved}");
  fit_budget(planned, Rates{});
  Configuration again = planned;
  again.memory.budget = "4.2MiB";
  fit_budget(again, Rates{});
  CHECK(again.memory.rules == planned.memory.rules);
  CHECK(again.memory.why.find("as planned before: ") != std::string::npos);
  const std::size_t expected = planned.memory.why.find("; expected: ");  // all that was chosen stands before it
  REQUIRE(expected != std::string::npos);
  const std::size_t begin = planned.memory.why.find(": ") + 2;
  CHECK(again.memory.why.find(planned.memory.why.substr(begin, expected - begin)) != std::string::npos);
  again.memory.budget = "5MiB";  // of which the plan would leave a fifth
  fit_budget(again, Rates{});
  CHECK(again.memory.rules != planned.memory.rules);
  CHECK(saved(again) >= 5 * 1024 * 1024 / 20 * 19);
  again.train.batch_size = 16;
  fit_budget(again, Rates{});
  CHECK(again.memory.rules != planned.memory.rules);
  CHECK(saved(again) <= 5 << 20);
  // QuantizedTensor that are no longer wanted go.
  again.memory.options.insert_or_assign("codes", false);
  fit_budget(again, Rates{});
  for (const HoldRule& rule : again.memory.rules) CHECK(rule.how == HoldRule::How::keep);
  CHECK(!again.memory.recompute.empty());
  CHECK(saved(again) <= 5 << 20);
  again.memory.budget = "1KiB";
  const std::string saved_refusal = refusal(again);
  CHECK(saved_refusal.find("do not suffice") != std::string::npos);
  CHECK(saved_refusal.find("smaller train.batch_size") != std::string::npos);
  CHECK(saved_refusal.find("optimizer.in_backward") == std::string::npos);
  // Of a single image no batch is smaller; of all memory much is not activations.
  again.train.batch_size = again.train.accumulate = 1;
  again.memory.budget_of = "peak";
  const std::string peak_refusal = refusal(again);
  CHECK(peak_refusal.find("smaller train.batch_size") == std::string::npos);
  CHECK(peak_refusal.find("optimizer.in_backward") != std::string::npos);
}

TEST_CASE("budget: a plan whose rules or regions are not all of the step's is made anew") {
  for (const char* codes : {"true", "false"}) {
    Configuration planned =
        configured(vit, fmt::format("{{policy: auto, budget: 4MiB, budget_of: saved, codes: {}}}", codes));
    fit_budget(planned, Rates{});
    for (const char* train : {"head*", "blocks.5*"}) {
      Configuration again = planned;
      again.freeze.train = {train};
      CHECK_THROWS_WITH_AS(measure(again, Device::meta), doctest::Contains("memory.r"), Error);
      fit_budget(again, Rates{});
      INFO(std::string(train), " ", again.memory.why);
      CHECK(again.memory.why.find("as planned before") == std::string::npos);
      CHECK(saved(again) <= 4 << 20);
    }
  }
}

TEST_CASE("budget: a run goes on with other layers frozen") {
  const test::TemporaryFolder folder;
  test::write_file(folder / "c.yaml",
                   "model: {name: vit_cifar, depth: 3}\ndata: {name: shapes, train_size: 48, val_size: 24}\n"
                   "train: {epochs: 1, batch_size: 16, steps: 1}\n"
                   "memory: {policy: auto, budget: 4MiB, budget_of: saved}\n");
  REQUIRE(test::run_command(folder, {"train", "-c", "c.yaml", "output.dir=run"}).code == 0);
  CHECK(test::read_file(folder / "run/config.yaml").find("hold: int") != std::string::npos);
  const test::CommandResult result =
      test::run_command(folder, {"train", "--resume", "run", "train.steps=0", "freeze.train=[\"head*\"]"});
  INFO(result.error);
  CHECK(result.code == 0);
}

TEST_CASE("budget: a plan of rules by op, as older runs have it, is kept") {
  Configuration planned = configured(vit, "{policy: auto, budget: 4MiB, budget_of: saved}", "meta");
  planned.memory.options.insert_or_assign("bits", 2.0);
  for (int i = 0; i < 6; ++i)
    planned.memory.rules.push_back(
        {.path = fmt::format("blocks.{}", i), .op = "add", .how = HoldRule::How::quantize, .bits = 4});
  const std::int64_t bytes = saved(planned);
  planned.memory.budget = fmt::format("{}", bytes + 1);
  const Configuration before = planned;
  fit_budget(planned, Rates{});
  CHECK(planned.memory.rules == before.memory.rules);
  INFO(planned.memory.why);
  const auto count = std::ranges::count(survey(before, {}).tensors, "add", &Codable::op);
  CHECK(count == 10);  // two a block, but for the last one, of which the class token is left
  CHECK(planned.memory.why.find("as planned before: 10 tensors in 4 bits; ") != std::string::npos);
}

TEST_CASE("budget: bits that a user asks for are refused, those of a plan are not") {
  Configuration planned = configured(vit, "{policy: auto, budget: 4MiB, budget_of: saved}");
  fit_budget(planned, Rates{});
  const std::string plan = to_yaml(planned);
  CHECK(parse_configuration(plan, "b.yaml").memory.options.contains("bits"));
  CHECK(parse_configuration(plan, "b.yaml", std::vector<std::string>{"memory.budget=5MiB"}).memory.budget == "5MiB");
  CHECK_THROWS_WITH_AS(configured(vit, "{policy: auto, budget: 4MiB, bits: 4}"),
                       doctest::Contains("memory.bits: the policy auto chooses"), Error);
  CHECK_THROWS_WITH_AS(parse_configuration(plan, "b.yaml", std::vector<std::string>{"memory.bits=4"}),
                       doctest::Contains("command line: memory.bits: the policy auto chooses"), Error);
  CHECK_THROWS_WITH_AS(configured(vit, "{policy: auto, budget: 4MiB, left_over: 4}"),
                       doctest::Contains("memory.left_over: the policy auto writes this"), Error);
}

}  // namespace lacuna::apps
