// `model.from` as a folder that says what its model is, and what images a preset wants.
#pragma once

#include "apps/config/experiment.h"
#include "apps/config/yaml.h"
#include "models/folders/folder.h"

#include <cstdint>
#include <optional>

namespace lacuna::apps {

/// Fills in the model and its hyper-parameters except `num_classes`, where the configuration leaves them open, from the
/// folder of `model.from`. A given key wins. A given key that the weights do not fit is a problem that names both
/// values. Returns the folder; nothing if there is none, or one that does not fit.
std::optional<ModelFolder> take_model(Configuration& configuration, const Tree& root, Problems& problems);

/// Values of three channels for another number of them: their mean for each.
std::vector<double> for_channels(const std::vector<double>& values, std::int64_t channels);

/// Fills in mean, deviation, interpolation and crop of images with `channels`, where `root` leaves them open: as
/// `said`, otherwise as the preset of the configuration's model says.
void take_images(Configuration& configuration, const Tree& root, ImagePreparation said, std::int64_t channels);

/// Describes the model of a resolved experiment as a folder: labels, normalisation and tokenizer as it is trained.
ModelFolder describe_folder(const Experiment& experiment);

}  // namespace lacuna::apps
