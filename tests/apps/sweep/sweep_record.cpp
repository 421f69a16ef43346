#include "apps/sweep/case_run.h"

#include "core/error.h"

#include <doctest/doctest.h>

namespace lacuna::apps {

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
  CHECK(refusal("id", 1) == "a.json: expected `id` to be a text");
  CHECK(refusal("status", "dnoe") == "a.json: expected `status` to be \"done\" or \"failed\", got \"dnoe\"");
  CHECK(refusal("status", "done") == "a.json: expected `result`, found none");
  CHECK(refusal("exit_code", 256) == "a.json: expected `exit_code` to be a whole number from 0 to 255");
  CHECK(refusal("warnings", nullptr) == "a.json: expected `warnings` to be a text");
  CHECK(refusal("seconds", "x").starts_with("a.json: expected `seconds`"));
}

}  // namespace lacuna::apps
