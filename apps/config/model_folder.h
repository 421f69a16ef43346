// `model.from` as a folder that says what its model is.
#pragma once

#include "apps/config/configuration.h"
#include "apps/config/yaml.h"
#include "models/folders/folder.h"

namespace lacuna::apps {

/// Sets what the folder of `model.from` says and the configuration leaves open: the model, its hyper-parameters but the
/// classes, and the images' mean, deviation, interpolation and crop. What is given wins; where the weights could not follow, it becomes a
/// problem that names both values. Does nothing where `model.from` is no such folder.
void take_from_folder(Configuration& configuration, const YamlNode& root, Problems& problems);

/// What a folder with the model of a resolved configuration says: labels and normalisation as it is trained.
ModelFolder describe_folder(const Configuration& resolved);

}  // namespace lacuna::apps
