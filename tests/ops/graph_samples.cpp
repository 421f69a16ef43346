// Ops on graphs: a hub, a node without edges, a loop, rows of odd widths.
#include "ops/graphs/graph_attention.h"
#include "ops/graphs/graph_product.h"
#include "tests/ops/op_sample.h"

#include <algorithm>

namespace lacuna {
namespace {

Tensor numbers(const std::vector<std::int64_t>& values) {
  return Tensor::from(std::span<const std::int64_t>(values), {std::ssize(values)}).to(DType::i32);
}

using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;  // from, to

/// The edges by the second of each pair.
EdgeLists lists(std::int64_t nodes, Pairs pairs) {
  std::ranges::sort(pairs, {}, [](const auto& pair) { return std::pair(pair.second, pair.first); });
  std::vector<std::int64_t> degrees(static_cast<std::size_t>(nodes)), others;
  for (const auto& [from, to] : pairs) {
    ++degrees[static_cast<std::size_t>(to)];
    others.push_back(from);
  }
  return {numbers(degrees), numbers(others)};
}

/// Node 0 is a hub with edges from and to every other one but the last, which has none.
Pairs star(std::int64_t nodes) {
  Pairs pairs{{1, 1}, {2, 3}, {3, 2}};
  for (std::int64_t v = 1; v + 1 < nodes; ++v) {
    pairs.emplace_back(0, v);
    pairs.emplace_back(v, 0);
  }
  return pairs;
}

GraphPtr undirected(std::int64_t nodes) { return Graph::make(lists(nodes, star(nodes)), {}, {}, Device::cpu); }

GraphPtr directed(std::int64_t nodes, bool weighted) {
  Pairs pairs = star(nodes);
  std::erase_if(pairs, [](const auto& pair) { return pair.first == 0 && pair.second % 2 == 0; });
  Pairs flipped = pairs;
  for (auto& [from, to] : flipped) std::swap(from, to);
  const EdgeLists incoming = lists(nodes, pairs);
  const Tensor weights = weighted ? sample_values({incoming.nodes.count()}, DType::f32, 9, 0.1, 2) : Tensor();
  const GraphPtr made = Graph::make(incoming, lists(nodes, flipped), weights, Device::cpu);
  made->places();  // the matrix counts what ops allocate
  return made;
}

OpSample product(std::string name, GraphPtr graph, bool normalized, std::int64_t width, bool with_values) {
  return {.name = std::move(name),
          .op = bound(GraphProduct{.graph = graph, .normalized = normalized}),
          .inputs =
              [=](DType dtype) {
                return std::vector{sample_values({graph->nodes(), width}, dtype, 1),
                                   with_values ? sample_values({graph->edges()}, compute_type(dtype), 2) : Tensor()};
              },
          .differentiable = with_values ? InputSet{0, 1} : InputSet{0}};
}

const RegisterSample products[] = {
    RegisterSample(product("graph_product", undirected(9), false, 5, false)),
    RegisterSample(product("graph_product, normalized", undirected(7), true, 3, false)),
    RegisterSample(product("graph_product, several threads", undirected(2001), true, 19, false)),
    RegisterSample(product("graph_product, weights, directed", directed(9, true), true, 6, false)),
    RegisterSample(product("graph_product, values", directed(9, false), false, 7, true)),
    RegisterSample(product("graph_product, values, a hub", directed(2101, false), true, 3, true)),
    RegisterSample(product("graph_product, values, normalized", directed(12, false), true, 2, true))};

const RegisterSample sum_of_hub({.name = "segment_sum, a hub",
                                 .op = bound(SegmentSum{.graph = undirected(2101)}),
                                 .inputs =
                                     [](DType dtype) {
                                       return std::vector{sample_values({2 * 2099 + 3, 3}, dtype, 1)};
                                     },
                                 .differentiable = {0}});
const RegisterSample sums({.name = "segment_sum",
                           .op = bound(SegmentSum{.graph = undirected(8)}),
                           .inputs =
                               [](DType dtype) {
                                 return std::vector{sample_values({15, 5}, dtype, 1)};
                               },
                           .differentiable = {0}});

OpSample attention(std::string name, GraphAttention op, std::int64_t width) {
  return {.name = std::move(name),
          .op = bound(op),
          .inputs =
              [=](DType dtype) {
                const Shape vector{1, op.heads, width / op.heads};
                return std::vector{sample_values({op.graph->nodes(), width}, dtype, 1),
                                   sample_values(vector, compute_type(dtype), 2),
                                   sample_values(vector, compute_type(dtype), 3)};
              },
          .differentiable = {0, 1, 2}};
}

constexpr RandomStream stream{3, 5, 7};
const RegisterSample attentions[] = {
    RegisterSample(attention("graph_attention", {.graph = undirected(9)}, 5)),
    RegisterSample(attention("graph_attention, heads, directed", {.graph = directed(8, false), .heads = 3}, 6)),
    RegisterSample(attention("graph_attention, several threads", {.graph = undirected(501), .heads = 2}, 34)),
    RegisterSample(attention("graph_attention, a hub",
                             {.graph = undirected(1101), .heads = 2, .dropout = 0.2, .stream = stream}, 6)),
    RegisterSample(attention("graph_attention, dropout",
                             {.graph = directed(11, false), .heads = 5, .slope = 0.1, .dropout = 0.4, .stream = stream},
                             10))};

}  // namespace
}  // namespace lacuna
