#include "apps/sweep/case_run.h"

#include "core/error.h"
#include "tests/apps/problems.h"

#include <doctest/doctest.h>

namespace lacuna::apps {

using test::names;

TEST_CASE("sweep record: a case has failed by its code, or by a result that is not whole") {
  CHECK(!failure_of(0, R"({"memory": {}})", "lacuna: warning: slow"));
  CHECK(failure_of(2, "{}", "lacuna: no") == "lacuna: no");
  CHECK(failure_of(1, "{}", "") == "ended with code 1");
  CHECK(failure_of(137, "", "") == "ended by signal 9");
  const std::string no_result = "ended with code 0, but left no whole result: expected a JSON object, got ";
  CHECK(failure_of(0, "", "") == no_result + "nothing");
  CHECK(failure_of(0, R"({"memory":)", "") == no_result + "text that is not JSON");
  CHECK(failure_of(0, "[1]", "lacuna: warning: slow") == no_result + "JSON of the type array\nlacuna: warning: slow");
}

TEST_CASE("sweep record: a record with anything else is refused") {
  const auto whole =
      nlohmann::ordered_json::parse(R"({"id": "a", "status": "failed", "exit_code": 2, "seconds": 1, "error": "no"})");
  Result result;
  read_record(whole, "a.json", result);
  CHECK(result.state == Result::State::failed);
  CHECK(result.error == "no");
  const auto refusal = [&](const char* key, const nlohmann::ordered_json& value) -> std::string {
    nlohmann::ordered_json record = whole;
    record[key] = value;
    try {
      read_record(record, "a.json", result);
    } catch (const Error& error) {
      CHECK(error.fault() == Fault::input);
      return error.what();
    }
    return {};
  };
  CHECK(names(refusal("id", 1), "a.json", {"`id`", "text"}));
  CHECK(names(refusal("status", "dnoe"), "a.json", {"`status`", "\"done\"", "\"failed\"", "\"dnoe\""}));
  CHECK(names(refusal("status", "done"), "a.json", {"`result`"}));
  CHECK(names(refusal("exit_code", 256), "a.json", {"`exit_code`", "255"}));
  CHECK(names(refusal("warnings", nullptr), "a.json", {"`warnings`", "text"}));
  CHECK(refusal("seconds", "x").starts_with("a.json: expected `seconds`"));
}

}  // namespace lacuna::apps
