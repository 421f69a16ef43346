// Sums over the neighbours of each node of a graph.
#pragma once

#include "core/op.h"
#include "ops/graphs/graph.h"

namespace lacuna {

/// y[t] = Σ values[e] · x[s] over the edges e from s to t (a CSR matrix times a dense one); where `normalized`,
/// y = D^-1/2 · A · D^-1/2 · x with Graph::scale. x, y [..., V, C]; values [E] of the incoming entries, f32, or f64 for
/// an f64 x; undefined: Graph::weights, or 1. Nodes without edges get 0. Without a gradient of the values nothing is
/// saved but them.
struct GraphProduct {
  enum Input { x, values };
  GraphPtr graph;
  bool normalized = false;
  static constexpr std::string_view name = "graph_product";
  static constexpr std::array saves{Save{.from = input(x), .need = Need::value, .for_grad_of = {values}},
                                    Save{.from = input(values), .need = Need::exact, .for_grad_of = {x}}};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(const Tensor& dy, const Saved<GraphProduct>& saved, Grads& grads) const;
};

/// y[t] = Σ x[e] over the edges e that end in t: the sum of each segment of x [E, C], as Graph::incoming orders them.
/// y [V, C]. Saves nothing.
struct SegmentSum {
  enum Input { x };
  GraphPtr graph;
  static constexpr std::string_view name = "segment_sum";
  static constexpr std::array<Save, 0> saves{};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(const Tensor& dy, const Saved<SegmentSum>& saved, Grads& grads) const;
};

}  // namespace lacuna
