// Selective fine-tuning: which parameters are trained.
#pragma once

#include "nn/module.h"

#include <string>
#include <vector>

namespace lacuna {

/// Glob patterns on parameter paths, and named sets. Either list may be empty, not both given. `train`: only what
/// matches is trained. `freeze`: all else is.
///
/// Named sets, from what the model declares (Role, and the heads that are given):
///   @head   the layers whose shape depends on the number of classes
///   @norms  the normalisation layers
///   @bias   every vector that is added: of layers and norms (BitFit, Ben Zaken et al. 2022)
///   @lastN  the last N blocks with what lies between and behind them, the head excepted
struct FreezeRules {
  std::vector<std::string> train;
  std::vector<std::string> freeze;
};

struct FreezeMatch {
  std::string pattern;
  std::vector<const Parameter*> parameters;
  std::vector<const Parameter*> left_frozen{};  // matched, and not trained all the same: A of LoRA-FA
};

/// Sets what is trained and tells the modules. `heads`: paths of the layers that make up `@head`. Says what each
/// pattern matched. A pattern or set that matches nothing is an error of the input, and so is an unknown set.
std::vector<FreezeMatch> freeze(Module& model, const FreezeRules& rules, const std::vector<std::string>& heads = {});

}  // namespace lacuna
