#include "ops/graphs/graph_product.h"

#include "ops/graphs/graph_product_kernels.h"
#include "ops/operand.h"

namespace lacuna {
namespace {

const RegisterOp<GraphProduct> graph_product_op;
const RegisterOp<SegmentSum> segment_sum_op;

}  // namespace

Tensor GraphProduct::forward(std::span<const Tensor> inputs) const {
  const Tensor& from = inputs[x];
  expect(from.rows() == graph->nodes(), "{} expects a row for each of {} nodes, got {}", name, graph->nodes(),
         from.shape());
  const Tensor& given = inputs[values];
  expect(!given.defined() || (given.shape() == Shape{graph->edges()} && given.dtype() == compute_type(from.dtype())),
         "{} expects values {} [{}], got {} {}", name, name_of(compute_type(from.dtype())), graph->edges(),
         given.defined() ? name_of(given.dtype()) : "", given.defined() ? given.shape() : Shape{});
  Tensor y = empty_like(from);
  const Graph& own = graph->at(y.device());
  graph_product(y.device(), own.incoming(), normalized ? own.scale() : Tensor(),
                given.defined() ? given : own.weights(), {}, from, y);
  return y;
}

void GraphProduct::backward(const Tensor& dy, const Saved<GraphProduct>& saved, Grads& grads) const {
  const Graph& own = graph->at(dy.device());
  const Tensor scale = normalized ? own.scale() : Tensor();
  if (grads.wanted(x)) {
    const Tensor weights = saved.has<input(values)>() ? saved.get<input(values)>().whole() : own.weights();
    grads[x] = empty_like(dy);
    graph_product(dy.device(), own.outgoing(), scale, weights, weights.defined() ? own.places() : Tensor(), dy,
                  grads[x]);
  }
  if (grads.wanted(values)) {
    grads[values] = Tensor::empty({graph->edges()}, compute_type(dy.dtype()), dy.device());
    graph_value_gradient(dy.device(), own.incoming(), scale, saved.get<input(x)>().whole(), dy, grads[values]);
  }
}

Tensor SegmentSum::forward(std::span<const Tensor> inputs) const {
  const Tensor& from = inputs[x];
  expect(from.rows() == graph->edges(), "{} expects a row for each of {} edges, got {}", name, graph->edges(),
         from.shape());
  Tensor y = Tensor::empty({graph->nodes(), from.shape().back()}, from.dtype(), from.device());
  segment_sum(y.device(), graph->at(y.device()).incoming(), from, y);
  return y;
}

void SegmentSum::backward(const Tensor& dy, const Saved<SegmentSum>&, Grads& grads) const {
  grads[x] = Tensor::empty({graph->edges(), dy.shape().back()}, dy.dtype(), dy.device());
  segment_spread(dy.device(), graph->at(dy.device()).incoming(), dy, grads[x]);
}

}  // namespace lacuna
