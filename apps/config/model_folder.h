// `model.from` as a folder that says what its model is, and what images a preset wants.
#pragma once

#include "apps/config/configuration.h"
#include "apps/config/yaml.h"
#include "models/folders/folder.h"

namespace lacuna::apps {

/// Fills in keys that the configuration leaves open from the folder of `model.from`, if it is one: the model, its
/// hyper-parameters except `num_classes`, the order of the classes, and the images' mean, deviation, interpolation and
/// crop, which the model's preset says where no folder does. A given key wins. A given key that the weights do not fit
/// is a problem that names both values.
void take_from_folder(Configuration& configuration, const Tree& root, Problems& problems);

/// Fills in how images of the configuration's model are prepared: as `said`, otherwise as its preset says.
void take_images(Configuration& configuration, const ImagePreparation& said);

/// Describes the model of a resolved configuration as a folder: labels, normalisation and tokenizer as it is trained.
ModelFolder describe_folder(const Configuration& resolved);

}  // namespace lacuna::apps
