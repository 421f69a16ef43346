// Launchers of ops/graphs/graph_product.cu.
#pragma once

#include "core/number.h"
#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

/// A node with more entries has pieces of so many.
inline constexpr std::int64_t entries_of_piece = 1024;
/// At least the number of pieces of all nodes: a rule of the shape, so that plans know it.
constexpr std::int64_t most_pieces(std::int64_t entries) { return 2 * (entries / entries_of_piece); }

/// The entries of each node: [starts[v], starts[v + 1]) of `ends`.
struct DeviceNeighbours {
  const std::int64_t* starts;  // [nodes + 1]
  const std::int32_t* ends;    // [entries]
  std::int64_t nodes;
  const std::int32_t* piece_nodes;  // [pieces, 2]: node, or -1, and the number within the node
  std::int64_t pieces;
};

/// y[v] = scale[v] · Σ factors[p] · partial[p] over the pieces p of each node that has any.
struct JoinPieces {
  DeviceNeighbours of;
  const float* partial;  // [pieces, heads · size]
  const float* factors;  // [pieces, heads]; may be null
  const float* scale;    // [nodes]; may be null
  void* y;               // [nodes, heads · size]
  std::int64_t heads, size;
};
void join_pieces(Stream stream, DType type, const JoinPieces& what);

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
  float* partial;  // [pieces, width]: workspace
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
