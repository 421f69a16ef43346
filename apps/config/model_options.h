// The section `model`: what a configuration says about a model, as the model's family asks for it.
#pragma once

#include "apps/config/experiment.h"
#include "apps/config/yaml.h"

#include <string>
#include <string_view>
#include <vector>

namespace lacuna::apps {

/// The names of presets and families.
std::vector<std::string> known_models();

/// Checks the name that was read: a preset or a family. timm's name of weights
/// (`timm/vit_tiny_patch16_224.augreg_in21k`) is refused without `model.from`, where they are.
void read_model_name(Configuration& configuration, const Tree& section, Problems& problems);

/// Reads hyper-parameters from the section; adds the problems of values that are maps.
std::vector<HyperParameter> read_model_options(const std::vector<const TreeEntry*>& entries, Problems& problems);

/// All given hyper-parameters: the model's options, the number of classes, the size of the images and the task's head.
std::vector<HyperParameter> hyper_parameters_of(const Configuration& configuration);

/// The hyper-parameters that a model has by default, but those that other keys decide: `model.num_classes`,
/// `data.image_size` and `task.name` (`head`). Empty for a name that no model has.
std::vector<HyperParameter> defaults_of_model(std::string_view name);
/// The size of a model's images, 0 for a model without images, and their channels.
ImageSize image_size_of(const ModelDescription& model);
std::int64_t channels_of(const ModelDescription& model);

/// Sets the hyper-parameters that are left open to their defaults.
void fill_in_model_options(Experiment& experiment);

/// Adds the problems that the family finds; `root` is the tree that the configuration was read from.
void check_model(const Experiment& experiment, const Tree& root, Problems& problems);

}  // namespace lacuna::apps
