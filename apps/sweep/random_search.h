// Random search: the section `random` of a sweep file.
#pragma once

#include "apps/config/yaml.h"

#include <cstdint>
#include <string>
#include <vector>

namespace lacuna::apps {

struct Distribution {
  std::string name;  // uniform, log_uniform, integer or choice
  Location where;
  std::vector<Tree> choices{};  // of `choice`
  double min = 0, max = 0;          // of the others

  /// The value at `u`, uniform in [0, 1). Real numbers have four digits, so that names stay
  /// readable, and more in narrow ranges.
  Tree draw(double u) const;
};

struct RandomSearch {
  struct Value {
    const TreeEntry* entry;  // the key, as in `optimizer.lr: {log_uniform: [1e-5, 1e-2]}`
    Distribution distribution;
  };
  std::int64_t trials = 0, seed = 0;
  std::vector<Value> values{};

  /// Depends on the seed, the trial's number and the key alone: more trials keep those before.
  Tree draw(const Value& value, std::int64_t trial) const;
};

/// Reads `{trials: 20, seed: 1, values: {KEY: {DISTRIBUTION: [...]}}}`, at most `most_trials`. Without trials and
/// values if anything is wrong. `section` lives as long as the result.
RandomSearch read_random_search(const Tree& section, std::int64_t most_trials, Problems& problems);

}  // namespace lacuna::apps
