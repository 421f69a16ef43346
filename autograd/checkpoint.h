// Checkpointed regions: forward saves only the inputs of a part of the model, and backward recomputes the part.
// Chen et al. 2016, "Training deep nets with sublinear memory cost"; torch.utils.checkpoint.
#pragma once

#include "autograd/apply.h"
#include "autograd/module_range.h"

#include <functional>
#include <string_view>
#include <vector>

namespace lacuna {

using CheckpointFunction = std::function<std::vector<Variable>(std::vector<Variable>)>;

/// Runs `function(inputs)` and saves only its inputs. Backward recomputes the function on a separate tape, with the
/// same random state and memory policy, and runs backward on that tape. Final ops whose results no gradient needs are
/// not recomputed. The function must run the same ops each time and access values only through ops; parameters it reads
/// need not be among the inputs. Regions nest. `path` names the region in reports and errors. Without a recording tape,
/// this is a plain call.
std::vector<Variable> checkpoint(Label path, const CheckpointFunction& function, std::vector<Variable> inputs);
/// Checkpoints a function of one input and one output.
Variable checkpoint(Label path, const std::function<Variable(Variable)>& function, Variable input);

/// The number of leading modules of `modules` that the recording tape's policy checkpoints as one region; 0: none.
std::int64_t recomputes(const ModuleRange& modules);

/// Whether forward code runs again on the same batch, for a recompute in backward or for calibration (calibration.h).
/// State that follows the data, such as running statistics, must not change then.
bool is_recomputing();

/// Makes `is_recomputing` true while it lives.
class RecomputingScope {
 public:
  RecomputingScope();
  ~RecomputingScope();
  RecomputingScope(const RecomputingScope&) = delete;
  RecomputingScope& operator=(const RecomputingScope&) = delete;
};

}  // namespace lacuna
