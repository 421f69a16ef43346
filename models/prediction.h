// Predictions for single samples: values that a command prints without knowing the task.
#pragma once

#include "core/tensor.h"

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace lacuna {

struct Prediction {
  struct Class {
    std::string name;
    double probability;
  };
  using Value = std::variant<double, std::int64_t, std::string, std::vector<double>, std::vector<std::string>,
                             std::vector<std::vector<double>>, std::vector<std::vector<std::string>>>;

  std::vector<Class> classes{};  // by number; empty: the task has none
  /// The key under which classes of probability 0.5 or more are listed, if a sample may have several; empty: it has
  /// one.
  std::string_view several{};
  std::vector<std::pair<std::string, Value>> values{};  // by name, in the order in which they are printed
};

/// Probabilities of the classes for each row of `logits` [N, C]: their softmax, or with `several` classes per
/// sample their sigmoids. Logits that are not finite give probabilities that are not. A class without a name goes by
/// its number.
std::vector<Prediction> class_predictions(const Tensor& logits, const std::vector<std::string>& names,
                                          std::string_view several = {});

/// The name of class `number`, or the number where it has no name.
std::string class_name(const std::vector<std::string>& names, std::int64_t number);

/// The rows of `x` [N, C].
std::vector<std::vector<double>> rows_of(const Tensor& x);

}  // namespace lacuna
