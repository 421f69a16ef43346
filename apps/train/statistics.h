// The normalization that weights were trained with, beside that of the images.
#pragma once

#include "apps/config/configuration.h"

namespace lacuna::apps {

/// Warns where `model.from` is a file and the config.json beside it, as timm writes it, has another mean or standard
/// deviation of the images than the resolved configuration: weights score too low on images that look otherwise.
void warn_of_other_statistics(const Configuration& resolved);

}  // namespace lacuna::apps
