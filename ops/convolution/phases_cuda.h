// Launchers of ops/convolution/phases.cu.
#pragma once

#include "core/number.h"
#include "core/stream.h"
#include "ops/convolution/phase_shape.h"

namespace lacuna::cuda {

/// images [N, height, width, channels], split [phases.count(), rows, columns, channels], of `type`.
void split_phases(Stream stream, DType type, const Phases& phases, std::int64_t channels, const void* images,
                  void* split);
void join_phases(Stream stream, DType type, const Phases& phases, std::int64_t channels, const void* split,
                 void* images, bool add);

}  // namespace lacuna::cuda
