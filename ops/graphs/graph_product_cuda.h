// Launchers of ops/graphs/graph_product.cu.
#pragma once

#include "core/number.h"
#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

/// The entries of each node: [starts[v], starts[v + 1]) of `ends`.
struct DeviceNeighbours {
  const std::int64_t* starts;  // [nodes + 1]
  const std::int32_t* ends;    // [entries]
  std::int64_t nodes;
};

/// y[v] = scale[v] · Σ scale[n] · values[places[e]] · x[n] over the entries e of node v, whose other end is n; without
/// `ends` of x[e].
struct SumNeighbours {
  DeviceNeighbours of;
  const float *scale, *values;  // [nodes] and [entries]; may be null
  const std::int32_t* places;   // [entries]; may be null
  const void* x;                // [nodes, width], without `ends` [entries, width]
  std::int64_t rows;            // of x
  void* y;                      // [nodes, width]
  std::int64_t width;
};
void sum_neighbours(Stream stream, DType type, const SumNeighbours& what);

/// dvalues[e] = scale[v] · scale[n] · (dy[v] · x[n]).
struct ValueGradient {
  DeviceNeighbours of;
  const float* scale;  // [nodes]; may be null
  const void *x, *dy;  // [nodes, width]
  float* dvalues;      // [entries]
  std::int64_t width;
};
void value_gradient(Stream stream, DType type, const ValueGradient& what);

/// x[e] = y[v] for the entries e of each node v.
struct SpreadToEntries {
  DeviceNeighbours of;
  const void* y;  // [nodes, width]
  void* x;        // [entries, width]
  std::int64_t entries, width;
};
void spread_to_entries(Stream stream, DType type, const SpreadToEntries& what);

}  // namespace lacuna::cuda
