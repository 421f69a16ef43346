// Random search: the section `random` of a sweep file.
#pragma once

#include "apps/config/yaml.h"
#include "core/schema_maps.h"

#include <cstdint>
#include <string>
#include <vector>

namespace lacuna::apps {

struct Distribution {
  std::string name;  // uniform, log_uniform, integer or choice
  Location where;
  std::vector<Tree> choices{};  // of `choice`
  double min = 0, max = 0;      // of the others

  /// The value at `u`, uniform in [0, 1). Real numbers have four digits, so that names stay
  /// readable, and more in narrow ranges.
  Tree draw(double u) const;
};

struct RandomSearch {
  static constexpr std::int64_t most_trials = 10'000;
  struct Value {
    TreeEntry entry;  // the key, as in `optimizer.lr: {log_uniform: [1e-5, 1e-2]}`
    Distribution distribution;
  };
  std::int64_t trials = 0, seed = 0;
  std::vector<TreeEntry> keys{};
  std::vector<Value> values{};  // read from `keys`

  static Fields fields();
  /// Depends on the seed, the trial's number and the key alone: more trials keep those before.
  Tree draw(const Value& value, std::int64_t trial) const;
};

/// Reads `{trials: 20, seed: 1, values: {KEY: {DISTRIBUTION: [...]}}}`. Without trials and values if anything is wrong.
RandomSearch read_random_search(const Tree& section, Problems& problems);

}  // namespace lacuna::apps
