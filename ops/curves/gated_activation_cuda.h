// Launchers of ops/curves/gated_activation.cu.
#pragma once

#include "core/number.h"
#include "core/stream.h"
#include "ops/cuda/saved_values.h"

#include <cstdint>

namespace lacuna::cuda {

enum class GatedCurve : std::uint8_t { silu, gelu, gelu_tanh };  // as GatedActivation::Curve

/// Rows of a gate or an up: [rows, width], of which the first to read is `first`.
struct GatedInput {
  SavedValues values{};
  std::int64_t rows = 0, first = 0;
};
/// y = f(gate) · up. y: [rows, width]; gate, up: as wide, or gate [rows, 2, width] holds both (`joined`). Codes: width
/// is a multiple of 8.
struct GatedForward {
  GatedCurve curve;
  bool joined;
  GatedInput gate, up;
  void* y;
  std::int64_t rows, width;
};
void gated_forward(Stream stream, DType type, const GatedForward& what);

/// dgate, dup: as gate and up; null if not wanted.
struct GatedBackward {
  GatedCurve curve;
  bool joined;
  SavedValues gate, up;
  const void* dy;  // [rows, width]
  void *dgate, *dup;
  std::int64_t rows, width;
};
void gated_backward(Stream stream, DType type, const GatedBackward& what);

}  // namespace lacuna::cuda
