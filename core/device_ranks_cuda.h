// Launcher of core/device_ranks.cu.
#pragma once

#include "core/number.h"
#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

/// sum[i] = rows[0, i] + rows[1, i] + ... of `type`. rows: [count, width]; sum: [width].
void add_rows_in_order(Stream stream, DType type, const void* rows, std::int64_t count, std::int64_t width, void* sum);

}  // namespace lacuna::cuda
