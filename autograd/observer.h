// The view of a step for a profiler, or for a search for the first NaN.
#pragma once

#include "core/op.h"

#include <cstdint>
#include <span>

namespace lacuna {

enum class Phase : std::uint8_t { forward, backward };

/// The work of one op in one direction.
struct Work {
  std::int64_t bytes = 0;  // read and written, each tensor once
  std::int64_t macs = 0;   // multiply-adds by definition (Operation::macs)
};

/// Called before and after each op of a tape.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void before(Phase phase, const Operation& op, Label path) = 0;
  /// `results`: the outputs, or the gradients of the inputs.
  virtual void after(Phase phase, const Operation& op, Label path, const Work& work,
                     std::span<const Tensor> results) = 0;
};

}  // namespace lacuna
