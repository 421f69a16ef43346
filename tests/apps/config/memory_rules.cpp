// The list `memory.rules`.
#include "apps/config/memory_rules.h"

#include "apps/config/configuration.h"
#include "core/error.h"

#include <doctest/doctest.h>

namespace lacuna::apps {
namespace {

std::vector<HoldRule> rules_of(const std::string& list) {
  return parse_configuration("model: {name: vit}\nmemory:\n  rules: " + list + "\n", "a.yaml").memory.rules;
}

/// The message with which a list is refused.
std::string refusal(const std::string& list) {
  try {
    rules_of(list);
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::input);
    return error.what();
  }
  return {};
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
  CHECK(rules_of(write_rules(rules)) == rules);
  const std::vector<HoldRule> odd{{.path = R"(a"b\[.]c)", .how = HoldRule::How::exact}};
  CHECK(rules_of(write_rules(odd)) == odd);
  CHECK(rules_of("[]").empty());
  CHECK(rules_of("").empty());
}

TEST_CASE("memory.rules: what is wrong is told with its place, all at once") {
  CHECK(refusal("int4") == "a.yaml:3:10: memory.rules: expected a list of rules, got `int4`");
  CHECK(refusal("[int4]") == "a.yaml:3:11: memory.rules: expected keys with values, got `int4`");
  CHECK(refusal("[{path: a}]") ==
        "a.yaml:3:11: memory.rules: expected `hold`: keep, exact, recompute, int1 to int8, or slope2");
  CHECK(refusal("[{hold: int9}]") ==
        "a.yaml:3:18: memory.rules: hold: expected keep, exact, recompute, int1 to int8, or slope2, got `int9`");
  CHECK(refusal("[{hold: [int4]}]") == "a.yaml:3:18: memory.rules: hold: expected text, got a list");
  CHECK(refusal("[{hold: int4, groups: head}]") ==
        "a.yaml:3:32: memory.rules: groups: expected run, heads or channels, got `head`");
  for (const std::string size : {"63", "1025", "100.5", "many", "\"256\""})
    CHECK(refusal("[{hold: int4, group_size: " + size + "}]")
              .starts_with("a.yaml:3:36: memory.rules: group_size: expected a whole number from 64 to 1024, got "));
  CHECK(refusal("[{hold: int4, paht: a}]") ==
        "a.yaml:3:24: unknown key of memory.rules: \"paht\", did you mean \"path\"?");
  CHECK(
      refusal("[{hold: int4, zzzzzz: a}]") ==
      "a.yaml:3:24: unknown key of memory.rules: \"zzzzzz\"; known are path, op, slot, user, hold, groups, group_size");
  for (const std::string hold : {"keep", "exact", "slope2", "recompute"})
    for (const std::string groups : {"groups: heads", "group_size: 512"})
      CHECK(refusal("[{hold: " + hold + ", " + groups + "}]") ==
            "a.yaml:3:11: memory.rules: `groups` and `group_size` are of codes, and `hold: " + hold + "` has none");
  CHECK(rules_of("[{hold: keep, groups: run, group_size: 256}]").front().how == HoldRule::How::keep);
  CHECK(refusal("[{hold: int0},\n    {path: b}]") ==
        "a.yaml:3:18: memory.rules: hold: expected keep, exact, recompute, int1 to int8, or slope2, got `int0`\n"
        "a.yaml:4:5: memory.rules: expected `hold`: keep, exact, recompute, int1 to int8, or slope2");
}

}  // namespace lacuna::apps
