// Hyper-parameters of models: values by name, from a configuration, a preset or a reference file, and the problems of
// the options that they are read into.
#pragma once

#include "core/schema.h"
#include "data/image_size.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lacuna {

struct HyperParameter {
  std::string key;
  Tree value;
};
/// Null if there is none.
const Tree* find_value(const std::vector<HyperParameter>& values, std::string_view key);

struct HyperProblem {
  std::string key;  // whose value, or which unknown key
  std::string message;
};
/// The problems of hyper-parameters, gathered so that the user sees all of it at once.
class HyperProblems {
 public:
  void add(std::string_view key, std::string message) { all_.push_back({std::string(key), std::move(message)}); }
  const std::vector<HyperProblem>& all() const { return all_; }

 private:
  std::vector<HyperProblem> all_;
};

inline constexpr std::int64_t largest_extent = 1 << 16;
inline constexpr NumberRange extent_range = between(1, largest_extent);
inline constexpr NumberRange count_range = between(1, 0x7fffffff);
inline constexpr NumberRange rate_range = below(1);
inline constexpr NumberRange epsilon_range{.low = 1e-30, .high = 1};

/// Options of every image classifier.
struct ImageOptions {
  ImageSize image_size;
  std::int64_t in_channels = 3, num_classes = 1000;

  static Fields fields();
};

}  // namespace lacuna
