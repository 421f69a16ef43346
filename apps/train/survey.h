// What a configuration's step consists of, as a memory planner sees it.
#pragma once

#include "apps/config/configuration.h"
#include "autograd/sensitivity.h"

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace lacuna::apps {

/// Names a tensor as a rule does: the path of the module that made it, and which of that module's it is
/// (SavedTensorInfo::name).
using SavedTensorName = std::pair<std::string, std::string>;

/// A tensor that policies would hold in codes.
struct Codable {
  SavedTensorName name;
  std::string op{};  // that made it, as a rule has it
  std::int64_t elements = 0;
  std::int64_t bytes = 0;        // as they are
  std::int64_t range_bytes = 0;  // of their codes, as BitChoice has them
  std::int64_t hadamard_bytes = 0;
};

/// Blocks of a sequence of modules, from number `first` on.
struct Segment {
  std::string sequence;
  std::int64_t first, count;

  std::string block(std::int64_t i) const { return fmt::format("{}.{}", sequence, first + i); }
  /// The region of all of them: `blocks.4-7`.
  std::string path() const {
    return count == 1 ? block(0) : fmt::format("{}.{}-{}", sequence, first, first + count - 1);
  }
  Segment part(std::int64_t from, std::int64_t size) const { return {sequence, first + from, size}; }
};

struct StepSurvey {
  std::vector<Codable> tensors;      // in the order of forward
  std::vector<std::string> regions;  // that can be recomputed, outer ones before those in them
  std::vector<Segment> sequences;    // whole
  ErrorMeasure measure{};            // how the optimizer takes errors of the gradient
};

/// The step of `configuration` as it is when the regions `recompute` run again, on `meta`.
StepSurvey survey(const Configuration& configuration, const std::vector<std::string>& recompute);

/// A tensor that `exact` derives anew in backward, and the bytes that keeping it would take.
struct Rematerializable {
  SavedTensorName name;
  std::int64_t bytes = 0;
};
/// Those of the step when the regions `recompute` run again, in the order of forward; none that lie in a region.
std::vector<Rematerializable> rematerialized_tensors(const Configuration& configuration,
                                                     const std::vector<std::string>& recompute);

/// What an error as large as the tensor would do to the gradient: the variance, relative to the squared gradient.
using Sensitivities = std::map<SavedTensorName, double>;

/// Measures them in one step with at most two made-up samples: the same in every run with as many threads. Empty where
/// not even that fits into `bytes`.
Sensitivities measure_sensitivities(const Configuration& configuration, std::int64_t bytes);

}  // namespace lacuna::apps
