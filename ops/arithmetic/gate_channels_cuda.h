// Launchers of ops/arithmetic/gate_channels.cu. Tensors are of `type`.
#pragma once

#include "core/number.h"
#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

/// y = x · gate, where row r of x meets row (first_row + r) / pixels of gate.
struct ChannelGate {
  const void *x, *gate;  // [rows, channels], [N, channels]
  void* y;               // [rows, channels]
  std::int64_t rows, channels, pixels, first_row;
};
void gate_channels(Stream stream, DType type, const ChannelGate& what);

/// dgate = Σ of dy · x over the pixels of each image.
struct ChannelGateGradient {
  const void *dy, *x;  // [images, pixels, channels]
  void* dgate;         // [images, channels]
  std::int64_t images, pixels, channels;
};
void gate_channels_gradient(Stream stream, DType type, const ChannelGateGradient& what);

}  // namespace lacuna::cuda
