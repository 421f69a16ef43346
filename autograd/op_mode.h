// Interception of the ops that a thread runs.
#pragma once

#include "autograd/variable.h"
#include "core/op.h"

#include <vector>

namespace lacuna {

/// Intercepts every op that this thread runs while it lives, recorded or not, like a TorchDispatchMode. Modes nest.
class OpMode {
 public:
  OpMode() : outer_(innermost()) { innermost() = this; }
  virtual ~OpMode() { innermost() = outer_; }
  OpMode(const OpMode&) = delete;
  OpMode& operator=(const OpMode&) = delete;

  /// Called before an op. Returns outputs to use in place of running it, or none.
  virtual std::vector<Tensor> outputs_without_running(const Operation&, const std::vector<Variable>& /*inputs*/) {
    return {};
  }
  virtual void after(const Operation&, const std::vector<Variable>& /*inputs*/,
                     const std::vector<Variable>& /*outputs*/, const std::vector<Tensor>& /*extra_outputs*/) {}

  static OpMode*& innermost();
  OpMode* outer() const { return outer_; }

 private:
  OpMode* outer_;
};

}  // namespace lacuna
