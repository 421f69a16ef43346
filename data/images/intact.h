// A data set without the image files that are damaged.
#pragma once

#include "data/pipeline.h"

#include <string>
#include <vector>

namespace lacuna {

struct IntactImages {
  DatasetPtr images;                 // in the source's order; a sample keeps its number in the source
  std::vector<std::string> damaged;  // each file that is left out, and why
};

/// Decodes every file of a data set of image files once, with all threads, and leaves out those that are a
/// DamagedSample. A file that cannot be read at all, and no intact file, are errors.
IntactImages intact_images(DatasetPtr source);

}  // namespace lacuna
