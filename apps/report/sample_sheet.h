// Training samples as the model sees them, on one page.
#pragma once

#include "apps/config/experiment.h"

#include <string>

namespace lacuna::apps {

/// A page of images of the first batch of each of the first epochs, augmented, normalised and mixed, with their labels;
/// of text, the first samples with their tokens. Rejects other data sets.
std::string sample_sheet(Experiment experiment);

}  // namespace lacuna::apps
