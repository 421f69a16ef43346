// Launchers of ops/norms/l2_normalize.cu. Rows of `columns` elements of `type`.
#pragma once

#include "core/number.h"
#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

/// y = x / max(‖x‖, 1e-12) for each row; or, where dy is given, dx of it in place of y.
struct L2Normalize {
  const void *x, *dy;  // [rows, columns]; dy null in forward
  void* to;            // [rows, columns]
  std::int64_t rows, columns;
};
void l2_normalize(Stream stream, DType type, const L2Normalize& what);

}  // namespace lacuna::cuda
