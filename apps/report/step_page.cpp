#include "apps/report/step_page.h"

#include "apps/report/page.h"

#include <fmt/core.h>

#include <utility>

namespace lacuna::apps {

Result step_result(const std::string& title, nlohmann::ordered_json figures) {
  Result result;
  result.id = result.label = title;
  result.figures = std::move(figures);
  return result;
}

std::string step_page(const std::string& command, const Experiment& experiment, const std::vector<Result>& steps) {
  return to_html({.title = fmt::format("{}: memory of a training step", experiment.model.name),
                  .subtitle = fmt::format("{}, batch {}, {}, {} threads", command, experiment.train.batch_size,
                                          experiment.train.precision, experiment.train.threads),
                  .csv = {}},
                 steps, table_of(steps, "policy"));
}

}  // namespace lacuna::apps
