// Parameters that each rank updates a part of.
#pragma once

#include "core/communicator.h"
#include "optim/optimizer.h"

#include <span>

namespace lacuna {

/// Gives all ranks the parameters that their owners have updated (ZeRO, Rajbhandari et al. 2020, stage 1). Collective.
void share_updates(const Optimizer& optimizer, std::span<Parameter* const> parameters, Communicator& ranks);

}  // namespace lacuna
