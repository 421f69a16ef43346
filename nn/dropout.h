// Layers that leave something out at random, in training only. Rate 0 costs nothing.
#pragma once

#include "nn/module.h"

namespace lacuna::nn {

/// Each element is left out with probability `rate`.
class Dropout : public Module {
 public:
  Dropout(Module& parent, std::string_view name, double rate) : Module(parent, name), rate_(rate) {}
  Variable forward(Variable x) const;

 private:
  double rate_;
};

/// Each sample's whole contribution is left out with probability `rate` (stochastic depth).
class DropPath : public Module {
 public:
  DropPath(Module& parent, std::string_view name, double rate) : Module(parent, name), rate_(rate) {}
  Variable forward(Variable x) const;
  double rate() const { return rate_; }

 private:
  double rate_;
};

}  // namespace lacuna::nn
