// Attention over the edges of a graph (Veličković et al. 2018).
#pragma once

#include "core/op.h"
#include "core/random.h"
#include "ops/graphs/graph.h"

namespace lacuna {

/// For each head k of `heads`: y[t] = Σ a(s, t) · h[s] over the edges from s to t, where a is the softmax over the
/// edges that end in t of LeakyReLU(to · h[t] + from · h[s]), with slope `slope`. Each a becomes 0 with probability
/// `dropout` and is divided by 1 - dropout otherwise. h, y [V, heads · C]; to, from [1, heads, C], f32, or f64 for an
/// f64 h. Nodes without edges get 0.
///
/// Nothing of the size of the edges is kept or made: backward computes the weights again from the scores and the
/// normalizer of each node, once by target and once by source, so that no sum depends on the number of threads.
struct GraphAttention {
  enum Input { h, to, from };
  enum Extra { target_scores, source_scores, normalizers };  // [V, heads]; the last: log Σ exp
  GraphPtr graph;
  std::int64_t heads = 1;
  double slope = 0.2;
  double dropout = 0;
  RandomStream stream{};  // random stream of dropout; draws are numbered by edge and head
  static constexpr std::string_view name = "graph_attention";
  static constexpr std::array saves{
      Save{.from = input(h), .need = Need::value, .for_grad_of = {h, to, from}, .groups = Groups::head},
      Save{.from = input(to), .need = Need::exact, .for_grad_of = {h}},
      Save{.from = input(from), .need = Need::exact, .for_grad_of = {h}},
      Save{.from = extra_output(target_scores), .need = Need::exact, .for_grad_of = {h, to, from}},
      Save{.from = extra_output(source_scores), .need = Need::exact, .for_grad_of = {h, to, from}},
      Save{.from = extra_output(normalizers), .need = Need::exact, .for_grad_of = {h, to, from}}};
  Tensor forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const;
  void backward(const Tensor& dy, const Saved<GraphAttention>& saved, Grads& grads) const;
};

}  // namespace lacuna
