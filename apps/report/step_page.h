// Training steps side by side as a page: what they take, by purpose, by module and over time.
#pragma once

#include "apps/config/experiment.h"
#include "apps/report/results.h"

#include <string>
#include <vector>

namespace lacuna::apps {

/// A step under the policy `title`; figures: a measurement's JSON, with `timeline` of record_timeline().
Result step_result(const std::string& title, nlohmann::ordered_json figures);

/// `command` wrote the page.
std::string step_page(const std::string& command, const Experiment& experiment, const std::vector<Result>& steps);

}  // namespace lacuna::apps
