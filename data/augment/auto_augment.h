// RandAugment, AutoAugment, 3-Augment and AugMix.
#pragma once

#include "data/augment/policies.h"

#include <memory>

namespace lacuna::augment {

/// The transform that applies a policy.
std::shared_ptr<const Transform> make_auto_augment(Policy policy, Surroundings surroundings);

}  // namespace lacuna::augment
