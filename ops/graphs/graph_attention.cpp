#include "ops/graphs/graph_attention.h"

#include "ops/graphs/graph_attention_kernels.h"
#include "ops/operand.h"

#include <algorithm>
#include <cmath>

namespace lacuna {
namespace {

const RegisterOp<GraphAttention> graph_attention;

EdgeAttention how_of(const GraphAttention& op) {
  expect(op.dropout >= 0 && op.dropout < 1, "{} expects a probability in [0, 1), got {}", op.name, op.dropout);
  return {.heads = op.heads,
          .slope = op.slope,
          .dropped_below = static_cast<std::uint32_t>(std::min(std::ldexp(op.dropout, 32), 4294967295.0)),
          .kept_scale = 1 / (1 - op.dropout),
          .stream = op.stream};
}

}  // namespace

Tensor GraphAttention::forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const {
  const Tensor& x = inputs[h];
  const std::int64_t nodes = graph->nodes(), width = x.shape().back();
  expect(x.rows() == nodes && heads > 0 && width % heads == 0,
         "{} expects a row for each of {} nodes, of {} heads, got {}", name, nodes, heads, x.shape());
  const DType scores_type = compute_type(x.dtype());
  for (const Tensor& vector : {inputs[to], inputs[from]})
    expect(vector.shape() == Shape{1, heads, width / heads} && vector.dtype() == scores_type,
           "{} expects vectors {} [1, {}, {}], got {} {}", name, name_of(scores_type), heads, width / heads,
           name_of(vector.dtype()), vector.shape());
  const auto of_nodes = [&] { return Tensor::empty({nodes, heads}, scores_type, x.device()); };
  const NodeScores scores{of_nodes(), of_nodes(), of_nodes()};
  node_scores(x.device(), heads, x, inputs[to], scores.targets);
  node_scores(x.device(), heads, x, inputs[from], scores.sources);
  Tensor y = empty_like(x);
  graph_attention_forward(x.device(), how_of(*this), graph->at(x.device()).incoming(), scores, x, y);
  extra_outputs = {scores.targets, scores.sources, scores.normalizers};
  return y;
}

void GraphAttention::backward(const Tensor& dy, const Saved<GraphAttention>& saved, Grads& grads) const {
  const Graph& own = graph->at(dy.device());
  const EdgeAttention how = how_of(*this);
  const Tensor x = saved.get<input(h)>().whole();
  const NodeScores scores{saved.get<extra_output(target_scores)>().whole(),
                          saved.get<extra_output(source_scores)>().whole(),
                          saved.get<extra_output(normalizers)>().whole()};
  const Tensor dtargets = empty_like(scores.targets), means = empty_like(scores.targets);
  graph_attention_by_target(dy.device(), how, own.incoming(), scores, x, dy, dtargets, means);
  Tensor dh, dsources;
  if (grads.wanted(h) || grads.wanted(from)) {
    dsources = empty_like(scores.targets);
    if (grads.wanted(h)) dh = empty_like(dy);
    graph_attention_by_source(dy.device(), how, own.outgoing(), scores, x, dy, means, dsources, dh);
  }
  if (grads.wanted(h)) {
    node_scores_input_gradient(dy.device(), heads, dtargets, saved.get<input(to)>().whole(), dh);
    node_scores_input_gradient(dy.device(), heads, dsources, saved.get<input(from)>().whole(), dh);
    grads[h] = dh;
  }
  const auto vector_gradient = [&](Input which, const Tensor& dscores) {
    if (!grads.wanted(which)) return;
    grads[which] = Tensor::empty({1, heads, dy.shape().back() / heads}, dscores.dtype(), dy.device());
    node_scores_vector_gradient(dy.device(), heads, dscores, x, grads[which]);
  };
  vector_gradient(to, dtargets);
  vector_gradient(from, dsources);
}

}  // namespace lacuna
