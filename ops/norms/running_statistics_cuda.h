// Launchers of ops/norms/running_statistics.cu.
#pragma once

#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

/// Adds 1 to the counter.
void increment(Stream stream, std::int64_t* counter);

}  // namespace lacuna::cuda
