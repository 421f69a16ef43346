// Files that `data.broken: skip` passes over, in a run's metrics and for people.
#pragma once

#include "data/batch.h"

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace lacuna::apps {

/// `file` and `why` of each, and `instead`, the file that took its place, if any.
nlohmann::ordered_json to_json(const std::vector<DamagedFile>& damaged);

struct DamagedInRun {
  std::int64_t files = 0;
  std::string text;  // a line for each file; empty: there is none
};
/// Those in the metrics of a run, by name. Passes over what it does not understand: the run is over.
DamagedInRun damaged_in_run(const std::filesystem::path& metrics);

}  // namespace lacuna::apps
