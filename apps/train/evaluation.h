// A model against a data set, without training it.
#pragma once

#include "apps/config/configuration.h"
#include "apps/train/checkpoint.h"
#include "data/dataset.h"
#include "models/task.h"

#include <memory>
#include <optional>

namespace lacuna::apps {

/// Loss and accuracy on all images of `dataset`. Nothing where a signal came in between.
std::optional<Evaluation> evaluate(Model& model, const Task& task, const std::shared_ptr<const Dataset>& dataset,
                                   const Configuration& resolved);

}  // namespace lacuna::apps
