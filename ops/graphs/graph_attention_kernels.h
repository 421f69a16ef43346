// The kernels of attention over edges.
#pragma once

#include "core/kernel.h"
#include "core/random.h"
#include "ops/graphs/graph.h"

namespace lacuna {

struct EdgeAttention {
  std::int64_t heads;
  double slope;                 // of LeakyReLU, below 0
  std::uint32_t dropped_below;  // draws below it drop a weight
  double kept_scale;            // of the others
  RandomStream stream;
};
/// Scores and normalizers of nodes: [V, heads] in the type of sums.
struct NodeScores {
  Tensor targets, sources, normalizers;
};

/// scores[v, k] = vector[k] · h[v, k]. h [V, heads · C], vector of heads · C elements, scores [V, heads].
inline constinit Kernel<void(std::int64_t heads, const Tensor& h, const Tensor& vector, const Tensor& scores)>
    node_scores{"node scores"};
/// Sets the normalizers, and y [V, heads · C].
inline constinit Kernel<void(const EdgeAttention& how, const Neighbours& incoming, const NodeScores& scores,
                             const Tensor& h, const Tensor& y)>
    graph_attention_forward{"graph attention"};
/// Sets the gradient of each target's score, [V, heads], and `means` [V, heads]: those of the weights, weighted by
/// them.
inline constinit Kernel<void(const EdgeAttention& how, const Neighbours& incoming, const NodeScores& scores,
                             const Tensor& h, const Tensor& dy, const Tensor& dtargets, const Tensor& means)>
    graph_attention_by_target{"graph attention, gradients by target"};
/// Sets the gradient of each source's score, [V, heads], and where it is defined dh, of the messages alone.
inline constinit Kernel<void(const EdgeAttention& how, const Neighbours& outgoing, const NodeScores& scores,
                             const Tensor& h, const Tensor& dy, const Tensor& means, const Tensor& dsources,
                             const Tensor& dh)>
    graph_attention_by_source{"graph attention, gradients by source"};
/// dh[v, k] += dscores[v, k] · vector[k].
inline constinit Kernel<void(std::int64_t heads, const Tensor& dscores, const Tensor& vector, const Tensor& dh)>
    node_scores_input_gradient{"node scores, gradient of h"};
/// dvector[k] = Σ dscores[v, k] · h[v, k] over the nodes.
inline constinit Kernel<void(std::int64_t heads, const Tensor& dscores, const Tensor& h, const Tensor& dvector)>
    node_scores_vector_gradient{"node scores, gradient of the vector"};

}  // namespace lacuna
