// The section `model`: what a configuration says about a model, as the model's family asks for it.
#pragma once

#include "apps/config/configuration.h"
#include "apps/config/yaml.h"

#include <string>
#include <vector>

namespace lacuna::apps {

/// The names a configuration may give: presets and families.
std::vector<std::string> known_models();

/// Reads hyper-parameters from the section; what is no value of one becomes a problem.
std::vector<HyperParameter> read_model_options(const std::vector<const YamlEntry*>& entries, Problems& problems);

/// All that a model is told: its options, the number of classes and the size of the images, where they are set.
std::vector<HyperParameter> hyper_parameters_of(const Configuration& configuration);

/// Asks the family about all of it; `root` is the tree that the configuration was read from.
void check_model(const Configuration& configuration, const YamlNode& root, Problems& problems);

}  // namespace lacuna::apps
