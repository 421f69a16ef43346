// Launcher of ops/attention/rotary.cu.
#pragma once

#include "core/number.h"
#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

struct Rotation {
  const void* x;
  void* y;                        // [rows, heads, width]; may be x
  const float *cos, *sin;         // [positions, n]
  const std::int64_t* positions;  // [rows]
  std::int64_t rows, heads, width, n;
  bool neighbours;
  float direction;  // -1: by the negative angle
};
void rotate(Stream stream, DType type, const Rotation& what);

}  // namespace lacuna::cuda
