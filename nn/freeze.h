// Selective fine-tuning: which parameters are trained.
#pragma once

#include "nn/module.h"

#include <string>
#include <vector>

namespace lacuna {

/// Glob patterns on parameter paths. Either list may be empty, not both given. `train`: only what matches is trained.
/// `freeze`: all else is.
struct FreezeRules {
  std::vector<std::string> train;
  std::vector<std::string> freeze;
};

struct FreezeMatch {
  std::string pattern;
  std::vector<const Parameter*> parameters;
};

/// Sets what is trained and tells the modules. Says what each pattern matched; a pattern that matches nothing is an
/// error (of the input) that names the nearest parameter.
std::vector<FreezeMatch> freeze(Module& model, const FreezeRules& rules);

}  // namespace lacuna
