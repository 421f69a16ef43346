// Figures of a segmenter at the images' own sizes.
#pragma once

#include "core/communicator.h"
#include "data/dataset.h"
#include "data/transforms.h"
#include "models/checkpoint.h"
#include "models/figures.h"
#include "models/model.h"
#include "models/segmentation/class_map.h"

#include <cstdint>
#include <functional>

namespace lacuna::apps {

/// Adds each image of a data set of image files to the figures of a segmentation: its predicted classes, resized to its
/// own size, beside its mask. Each rank adds a part, in turns. `show` is told the images that this rank has done.
/// A damaged file is the input's fault.
/// @return the number of images; no loss and no metrics
Evaluation evaluate_at_own_size(Model& model, const Dataset& dataset, const TransformOptions& images, Showing showing,
                                Figures& figures, const std::function<void(std::int64_t)>& show, Communicator& ranks);

}  // namespace lacuna::apps
