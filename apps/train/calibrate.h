// The calibration of a policy that adapts, before the step that it is due in.
#pragma once

#include "apps/train/training.h"

namespace lacuna::apps {

/// Measures the sensitivities that `policy` needs, if it does and they are due: in a pass over a sixth of the batch, or
/// by draws over all of it. Gradients of the parameters and running statistics stay as they are. Returns whether it
/// has.
bool calibrate(Training& training, const Batch& batch, MemoryPolicy& policy);

}  // namespace lacuna::apps
