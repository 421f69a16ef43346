// Checkpointed regions: forward saves the inputs of a part of the model, backward runs that part again.
// Chen et al. 2016, "Training deep nets with sublinear memory cost"; torch.utils.checkpoint.
#pragma once

#include "autograd/apply.h"
#include "autograd/module_range.h"

#include <functional>
#include <string_view>
#include <vector>

namespace lacuna {

using CheckpointFunction = std::function<std::vector<Variable>(std::vector<Variable>)>;

/// Runs `function(inputs)` and saves nothing but its inputs: backward runs it again on a tape of its own, with the same
/// random state and memory policy, and walks that back. Ops at its end whose results no gradient needs are not run
/// again. The function must run the same ops each time and read values through ops alone; parameters it reads need not
/// be among the inputs. Regions nest. `path` names the region in reports and errors. Where no tape records, it is a
/// plain call.
std::vector<Variable> checkpoint(Label path, const CheckpointFunction& function, std::vector<Variable> inputs);
/// The same of one input and one output.
Variable checkpoint(Label path, const std::function<Variable(Variable)>& function, Variable input);

/// How many of `modules`, from the first on, the policy of the tape that records wants to be one region; 0: none.
std::int64_t recomputes(const ModuleRange& modules);

/// Whether forward code runs another time over the same batch: in backward, or while it is measured (calibration.h).
/// State that follows the data, such as running statistics, stays as it is then.
bool is_recomputing();

/// While it lives, `is_recomputing` is true.
class RecomputingScope {
 public:
  RecomputingScope();
  ~RecomputingScope();
  RecomputingScope(const RecomputingScope&) = delete;
  RecomputingScope& operator=(const RecomputingScope&) = delete;
};

}  // namespace lacuna
