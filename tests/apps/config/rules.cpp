// The lists `memory.rules` and `optimizer.groups`.
#include "apps/config/experiment.h"
#include "core/error.h"
#include "tests/apps/problems.h"
#include "tests/apps/refusals.h"

#include <doctest/doctest.h>

namespace lacuna::apps {
namespace {

using test::check_refusals, test::lines_of, test::names;

const std::string before = "model: {name: vit}\nmemory:\n  rules: ";

std::vector<HoldRule> rules_of(const std::string& list) {
  return parse_configuration(before + list + "\n", "a.yaml").memory.rules;
}

template <class Rule>
std::string written(const std::vector<Rule>& rules) {
  return lacuna::to_yaml(codec_of<std::vector<Rule>>().write(&rules));
}

/// The message with which a list is refused.
std::string refusal(const std::string& list) {
  return test::refusal_of([&] { rules_of(list); });
}

}  // namespace

TEST_CASE("memory.rules: every key is read, and written so that it reads back") {
  const std::vector<HoldRule> rules = rules_of(
      "[{path: \"blocks.*\", op: linear, slot: \"linear*\", user: gelu, hold: int2, groups: heads, group_size: 128},\n"
      "    {hold: keep}, {path: \"blocks.1\", hold: recompute}, {op: input, hold: exact, groups: run}]");
  REQUIRE(rules.size() == 4);
  CHECK(rules[0] == HoldRule{.path = "blocks.*",
                             .op = "linear",
                             .slot = "linear*",
                             .user = "gelu",
                             .how = HoldRule::How::quantize,
                             .bits = 2,
                             .by_columns = true,
                             .group_size = 128});
  CHECK(rules[1] == HoldRule{.how = HoldRule::How::keep});
  CHECK(rules[2] == HoldRule{.path = "blocks.1", .how = HoldRule::How::recompute});
  CHECK(rules[3] == HoldRule{.op = "input", .how = HoldRule::How::exact});
  CHECK(rules_of(written(rules)) == rules);
  const std::vector<HoldRule> odd{{.path = R"(a"b\[.]c)", .how = HoldRule::How::exact}};
  CHECK(rules_of(written(odd)) == odd);
  CHECK(rules_of("[]").empty());
  CHECK(rules_of("").empty());
}

TEST_CASE("memory.rules: what is wrong is told with its place, all at once") {
  check_refusals(
      before,
      {{"int4", "a.yaml:3:10", "memory.rules|`int4`"},
       {"[int4]", "a.yaml:3:11", "memory.rules|`int4`"},
       {"[{path: a}]", "a.yaml:3:11", "memory.rules|`hold`|keep, exact, recompute"},
       {"[{hold: int9}]", "a.yaml:3:18", "memory.rules: hold|keep, exact, recompute|`int9`"},
       {"[{hold: [int4]}]", "a.yaml:3:18", "memory.rules: hold|text|a list"},
       {"[{hold: int4, groups: head}]", "a.yaml:3:32", "memory.rules: groups|run, heads, channels|`head`"},
       {"[{hold: int4, paht: a}]", "a.yaml:3:24", "memory.rules|\"paht\"|\"path\""},
       {"[{hold: int4, zzzzzz: a}]", "a.yaml:3:24", "memory.rules|path, op, slot, user, hold, groups, group_size"},
       {"[{hold: recompute, op: linear}]", "a.yaml:3:11", "`hold: recompute`|`path`"}});
  for (const std::string size : {"63", "1025", "100.5", "many", "\"256\""})
    check_refusals(before, {{"[{hold: int4, group_size: " + size + "}]", "a.yaml:3:36",
                             "memory.rules: group_size|whole number in [64, 1024]"}});
  for (const std::string hold : {"keep", "exact", "slope2", "recompute"})
    for (const std::string groups : {"groups: heads", "group_size: 512"})
      check_refusals(before, {{"[{hold: " + hold + ", " + groups + "}]", "a.yaml:3:11", "`groups`|`hold: " + hold}});
  CHECK(rules_of("[{hold: keep, groups: run, group_size: 256}]").front().how == HoldRule::How::keep);
  const std::string two = refusal("[{hold: int0},\n    {path: b}]");
  CHECK(lines_of(two) == 2);
  CHECK(names(two, "a.yaml:3:18", {"`int0`"}));
  CHECK(names(two, "a.yaml:4:5", {"`hold`"}));
}

TEST_CASE("optimizer.groups: every key is read, written and checked") {
  const auto text = [](const std::string& list) { return "model: {name: vit}\noptimizer:\n  groups: " + list; };
  const Experiment configuration =
      parse_configuration(text("[{match: \"head*\", lr_scale: 10}, {match: b, weight_decay: 0}]"), "a.yaml");
  const std::vector<GroupRule>& groups = configuration.optimizer.groups;
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].pattern == "head*");
  CHECK(groups[0].lr_scale == 10);
  CHECK_FALSE(groups[0].weight_decay);
  CHECK(groups[1].weight_decay == 0);
  CHECK(written(parse_configuration(to_yaml(configuration), "b.yaml").optimizer.groups) == written(groups));
  check_refusals(text(""), {{"[{lr_scale: 2}]", "a.yaml:3:12", "`match`"},
                            {"[{match: a}]", "a.yaml:3:12", "`weight_decay`"},
                            {"[{match: a, lr_scale: -1}]", "a.yaml:3:33", "lr_scale"},
                            {"[{match: a, lr_scal: 1}]", "a.yaml:3:23", "\"lr_scale\""}});
}

}  // namespace lacuna::apps
