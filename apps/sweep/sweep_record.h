// What a sweep writes down of a case: cases/ID.json, from which another call of the same sweep goes on.
#pragma once

#include "apps/report/results.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna::apps {

/// The record of a case as a result. Refuses one in which something is missing or of another type; `origin` names it.
Result to_result(const nlohmann::ordered_json& record, std::string_view origin);

/// The same of several, whose configurations are named so that they can be told from each other.
std::vector<Result> to_results(const std::vector<nlohmann::ordered_json>& records, std::string_view origin);

/// Why a case that ended with `code` failed; nothing where it did not. `left`: what it left as its result; `said`: the
/// last lines of its standard error.
std::optional<std::string> failure_of(int code, const std::string& left, const std::string& said);

}  // namespace lacuna::apps
