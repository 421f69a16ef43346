// Measuring, before a step, what a policy wants to know of the batch.
#pragma once

#include "apps/train/training.h"

namespace lacuna::apps {

/// Measures what the policy asks for before the next pass, if it asks: by a pass over a sixth of the batch, or by
/// passes over all of it for a study of draws (DrawStudy). Gradients that the parameters have and running statistics
/// stay as they are. Whether it has asked.
bool study(Training& training, const MicroBatch& batch, MemoryPolicy& policy);

}  // namespace lacuna::apps
