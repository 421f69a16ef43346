// Execution of ops: `apply` computes an op's outputs, and records the op if a Recording is alive on this thread.
#pragma once

#include "autograd/variable.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

namespace lacuna {

class Tape;

/// Records this thread's ops on the tape while this object lives. Without a Recording, ops are not recorded
/// (inference).
class Recording {
 public:
  explicit Recording(Tape& tape);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 protected:
  Recording(Tape* tape, bool records);

 private:
  std::pair<Tape*, bool> outer_;
};

/// Disables recording on this thread while this object lives, like torch.no_grad.
class NoGrad : private Recording {
 public:
  NoGrad();
};

/// The results of one op.
struct RecordedOp {
  std::vector<Variable> outputs;
  std::vector<Tensor> extra_outputs;
};
/// Runs an op, and records it if a tape is recording.
RecordedOp record(const std::shared_ptr<const Operation>& op, const std::vector<Variable>& inputs);

/// Runs `op` on `inputs` and returns its output, or an array of its outputs if it has several:
///
///   Variable y = apply(Linear{}, x, weight, Variable());
///   auto [q, k, v] = apply(SplitQkv{}, std::move(qkv));
///
/// An absent optional input is passed as `Variable()`. Inputs that are not used again should be moved in.
template <class Op, class... Inputs>
auto apply(Op op, Inputs&&... inputs) {
  std::vector<Variable> all;
  all.reserve(sizeof...(inputs));
  (all.push_back(std::forward<Inputs>(inputs)), ...);
  RecordedOp recorded = record(std::make_shared<const Bound<Op>>(std::move(op)), std::move(all));
  if constexpr (outputs_of<Op> == 1) {
    return std::move(recorded.outputs.front());
  } else {
    std::array<Variable, outputs_of<Op>> outputs;
    std::ranges::move(recorded.outputs, outputs.begin());
    return outputs;
  }
}

}  // namespace lacuna
