// Launchers of ops/graphs/graph_attention.cu.
#pragma once

#include "core/number.h"
#include "core/random.h"
#include "core/stream.h"
#include "ops/graphs/graph_product_cuda.h"

#include <cstdint>

namespace lacuna::cuda {

/// Attention over the entries of nodes, as ops/graphs/graph_attention_kernels.h says.
struct GraphAttentionCall {
  DeviceNeighbours of;
  const float *targets, *sources;  // [nodes, heads]: scores
  float* normalizers;              // [nodes, heads]
  const void *h, *dy;              // [nodes, heads · size]; dy: null in forward
  void* y;                         // [nodes, heads · size]; by source dh, which may be null
  float *dscores, *means;          // [nodes, heads]
  float* partial;                  // [pieces, heads · size]: sums of rows; workspace
  float* extremes;                 // forward: [2, pieces, heads]: largest scores, sums of exponentials; workspace
  double* terms;                   // by target: [pieces, heads, 4]; workspace
  float* partial_dscores;          // by source: [pieces, heads]; workspace
  std::int64_t heads, size;        // size: columns of a head
  float slope, kept_scale;
  std::uint32_t dropped_below;
  RandomStream stream;
};
void attend_to_neighbours(Stream stream, DType type, const GraphAttentionCall& what);
void attention_by_target(Stream stream, DType type, const GraphAttentionCall& what);
void attention_by_source(Stream stream, DType type, const GraphAttentionCall& what);

/// scores[v, k] = vector[k] · h[v, k]; h[v, k] += scores[v, k] · vector[k]; and the sums over parts of the nodes of
/// scores[v, k] · h[v, k].
struct NodeScoreCall {
  const void* h;        // [nodes, heads · size]
  void* dh;             // the same
  const float* vector;  // [heads, size]
  float* scores;        // [nodes, heads]
  float* partial;       // [parts, heads · size]
  std::int64_t nodes, heads, size, parts;
};
void make_node_scores(Stream stream, DType type, const NodeScoreCall& what);
void add_scored_vector(Stream stream, DType type, const NodeScoreCall& what);
void sum_scored_rows(Stream stream, DType type, const NodeScoreCall& what);

}  // namespace lacuna::cuda
