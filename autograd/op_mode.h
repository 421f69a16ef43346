// Watching, or skipping, the ops that a thread runs.
#pragma once

#include "autograd/variable.h"
#include "core/op.h"

#include <vector>

namespace lacuna {

/// While it lives, it sees every op that this thread runs, recorded or not, as a TorchDispatchMode does. Modes nest.
class OpMode {
 public:
  OpMode() : outer_(innermost()) { innermost() = this; }
  virtual ~OpMode() { innermost() = outer_; }
  OpMode(const OpMode&) = delete;
  OpMode& operator=(const OpMode&) = delete;

  /// Before an op: the outputs to take without running it, or none.
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
