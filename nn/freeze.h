// Selective fine-tuning: the choice of trained parameters.
#pragma once

#include "core/schema.h"
#include "nn/module.h"

#include <string>
#include <vector>

namespace lacuna {

/// Glob patterns on parameter paths, and named sets. At most one list may be given. `train`: only matching parameters
/// are trained. `freeze`: all but matching parameters are trained.
///
/// Named sets, from the model's declarations (Role, and the given heads):
///   @head   the layers whose shape depends on the number of classes
///   @norms  the normalisation layers
///   @bias   the biases of layers and norms (BitFit, Ben Zaken et al. 2022)
///   @lastN  the last N blocks and the modules between and after them, except the head
struct FreezeRules {
  std::vector<std::string> train;
  std::vector<std::string> freeze;
  std::vector<std::string> weights{};  // types of frozen weights: weight_formats

  static Fields fields();
};

struct FreezeMatch {
  std::string pattern;
  std::vector<const Parameter*> parameters;
  std::vector<const Parameter*> left_frozen{};  // matched but not trained: A of LoRA-FA
};

/// Sets which parameters are trained and notifies the modules. `heads`: paths of the layers in `@head`. Returns the
/// matches of each pattern. A pattern or set without matches and an unknown set are input errors.
std::vector<FreezeMatch> freeze(Module& model, const FreezeRules& rules, const std::vector<std::string>& heads = {});

}  // namespace lacuna
