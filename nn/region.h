// Parts of a model that may run again in backward instead of saving what they need.
#pragma once

#include "nn/module.h"

#include <algorithm>

namespace lacuna {

/// Runs `body(x)`, the forward pass of `module`. Where the memory policy recomputes this module, only x is saved and
/// backward runs the body again: it must be a function of x, of the module and of the random state alone.
template <class Body>
Variable run_region(const Module& module, Variable x, const Body& body) {
  if (!recomputes(module.path())) return body(std::move(x));
  const std::vector<Parameter*> parameters = module.parameters();
  const bool trains =
      std::any_of(parameters.begin(), parameters.end(), [](const Parameter* one) { return one->trainable(); });
  return recompute(Label(module.path()), std::move(x), trains, body);
}

}  // namespace lacuna
