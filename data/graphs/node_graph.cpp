#include "data/graphs/node_graph.h"

#include "core/error.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace lacuna {
namespace {

constexpr Purpose data = Purpose::data;

Tensor numbers(const std::vector<std::int32_t>& values) {
  Tensor made = Tensor::empty({std::ssize(values)}, DType::i32, Device::cpu, data);
  std::ranges::copy(values, made.data<std::int32_t>());
  return made;
}

/// Positions of arcs in the order of `keys`, equal ones as in `order`.
std::vector<std::int32_t> sorted_by(const std::vector<std::int32_t>& keys, const std::vector<std::int32_t>& order,
                                    std::int64_t nodes) {
  std::vector<std::int64_t> next(static_cast<std::size_t>(nodes) + 1);
  for (const std::int32_t key : keys) ++next[static_cast<std::size_t>(key) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<std::int32_t> sorted(order.size());
  for (const std::int32_t i : order)
    sorted[static_cast<std::size_t>(next[static_cast<std::size_t>(keys[static_cast<std::size_t>(i)])]++)] = i;
  return sorted;
}

/// Arcs by `to`, of one node by `from`.
std::vector<std::int32_t> by_target(const Arcs& arcs, std::int64_t nodes) {
  std::vector<std::int32_t> order(arcs.from.size());
  std::iota(order.begin(), order.end(), 0);
  return sorted_by(arcs.to, sorted_by(arcs.from, order, nodes), nodes);
}

void add_reversed(Arcs& arcs) {
  const std::size_t count = arcs.from.size();
  arcs.from.reserve(2 * count);
  arcs.to.reserve(2 * count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t from = arcs.from[i], to = arcs.to[i];
    arcs.from.push_back(to);
    arcs.to.push_back(from);
    if (!arcs.weights.empty()) arcs.weights.push_back(arcs.weights[i]);
  }
}

void add_loops(Arcs& arcs, std::int64_t nodes) {
  std::vector<bool> has(static_cast<std::size_t>(nodes));
  for (std::size_t i = 0; i < arcs.from.size(); ++i)
    if (arcs.from[i] == arcs.to[i]) has[static_cast<std::size_t>(arcs.from[i])] = true;
  for (std::int64_t v = 0; v < nodes; ++v) {
    if (has[static_cast<std::size_t>(v)]) continue;
    arcs.from.push_back(static_cast<std::int32_t>(v));
    arcs.to.push_back(static_cast<std::int32_t>(v));
    if (!arcs.weights.empty()) arcs.weights.push_back(1);
  }
}

std::vector<std::int32_t> degrees_of(const std::vector<std::int32_t>& ends, std::int64_t nodes) {
  std::vector<std::int32_t> degrees(static_cast<std::size_t>(nodes));
  for (const std::int32_t v : ends) ++degrees[static_cast<std::size_t>(v)];
  return degrees;
}

}  // namespace

NodeEdges edges_of(Arcs arcs, std::int64_t nodes, bool undirected, const std::string& file,
                   const std::vector<std::string>& ids) {
  constexpr std::int64_t most = 0x7fffffff;
  for (std::int64_t i = 0; i < arcs.count(); ++i)
    for (const std::int32_t v : {arcs.from[static_cast<std::size_t>(i)], arcs.to[static_cast<std::size_t>(i)]})
      if (v < 0 || v >= nodes) reject("{}: edge {} names node {}, expected 0 to {}", file, i + 1, v, nodes - 1);
  if ((undirected ? 2 : 1) * arcs.count() + nodes > most)
    reject("{}: expected at most {} edges with loops{}, got {} edges of {} nodes", file, most,
           undirected ? " and reversed ones" : "", arcs.count(), nodes);
  NodeEdges made;
  const std::int64_t given = arcs.count();
  if (undirected) add_reversed(arcs);
  add_loops(arcs, nodes);
  const auto name = [&](std::int32_t v) { return ids.empty() ? std::to_string(v) : ids[static_cast<std::size_t>(v)]; };
  Arcs kept;
  std::int64_t first_kept = 0;
  for (const std::int32_t i : by_target(arcs, nodes)) {
    const std::int32_t from = arcs.from[static_cast<std::size_t>(i)], to = arcs.to[static_cast<std::size_t>(i)];
    if (!kept.from.empty() && kept.from.back() == from && kept.to.back() == to) {
      if (const auto at = static_cast<std::size_t>(i); !arcs.weights.empty() && arcs.weights[at] != kept.weights.back())
        reject("{}: expected one weight of the edge from node {} to node {}, got {} and {}{}", file, name(from),
               name(to), kept.weights.back(), arcs.weights[at],
               undirected ? "; data.undirected=false keeps weights of each direction" : "");
      continue;
    }
    first_kept += i < given ? 1 : 0;
    kept.from.push_back(from);
    kept.to.push_back(to);
    if (!arcs.weights.empty()) kept.weights.push_back(arcs.weights[static_cast<std::size_t>(i)]);
  }
  made.dropped = given - first_kept;
  const AllocationScope scope({data, Label("graph"), {}});
  const std::vector<std::int32_t> degrees = degrees_of(kept.to, nodes);
  made.degrees = numbers(degrees);
  made.sources = numbers(kept.from);
  if (!kept.weights.empty()) {
    made.weights = Tensor::empty({std::ssize(kept.weights)}, DType::f32, Device::cpu, data);
    std::ranges::copy(kept.weights, made.weights.data<float>());
  }
  std::swap(kept.from, kept.to);
  std::vector<std::int32_t> targets;
  targets.reserve(kept.from.size());
  for (const std::int32_t i : by_target(kept, nodes)) targets.push_back(kept.from[static_cast<std::size_t>(i)]);
  const std::vector<std::int32_t> out_degrees = degrees_of(kept.to, nodes);
  if (out_degrees != degrees || targets != kept.to) {
    made.out_degrees = numbers(out_degrees);
    made.targets = numbers(targets);
  }
  return made;
}

std::array<std::pair<std::string_view, NodeSplit>, 4> names_of(NodeSplit) {
  return {{{"none", NodeSplit::none}, {"train", NodeSplit::train}, {"val", NodeSplit::val}, {"test", NodeSplit::test}}};
}

Fields NodeGraphOptions::fields() {
  return {field("evaluated", &NodeGraphOptions::evaluated, "the nodes that evaluations count")};
}

namespace {

bool has_label(const NodeGraph& graph, std::int64_t node) {
  return graph.labels.dtype() != DType::i64 || graph.labels.data<const std::int64_t>()[node] >= 0;
}

std::vector<std::int64_t> counted_nodes(const NodeGraph& graph, Split split, NodeSplit evaluated) {
  const NodeSplit wanted = split == Split::train ? NodeSplit::train : evaluated;
  std::vector<std::int64_t> nodes;
  for (std::size_t v = 0; v < graph.split.size(); ++v)
    if (graph.split[v] == wanted && has_label(graph, static_cast<std::int64_t>(v)))
      nodes.push_back(static_cast<std::int64_t>(v));
  return nodes;
}

const NodeEdges& edges_in(const NodeGraph& graph, Split split) {
  return split == Split::train && graph.training_edges.degrees.defined() ? graph.training_edges : graph.edges;
}

}  // namespace

void check_splits(const DatasetOptions& options, NodeSplit evaluated, std::int64_t counted, const std::string& origin) {
  if (options.train_size > 0 || options.validation_size > 0)
    reject("data.train_size, data.validation_size: a graph is one sample; the splits of its nodes say which count");
  if (counted > 0) return;
  const NodeSplit split = options.split == Split::train ? NodeSplit::train : evaluated;
  reject("{}: expected nodes of the split {} with labels, got none{}", origin,
         names_of(split)[static_cast<std::size_t>(split)].first,
         options.split == Split::train ? "" : "; data.evaluated=test or train evaluates those");
}

NodeGraphShape shape_of(const NodeGraph& graph, Split split, NodeSplit evaluated) {
  const NodeEdges& edges = edges_in(graph, split);
  return {.nodes = graph.features.shape()[0],
          .edges = edges.sources.count(),
          .features = graph.features.shape()[1],
          .classes = std::ssize(graph.classes),
          .counted = std::ssize(counted_nodes(graph, split, evaluated)),
          .several = graph.labels.dtype() == DType::f32,
          .symmetric = !edges.targets.defined(),
          .weighted = edges.weights.defined()};
}

SampleFields fields_of(const NodeGraphShape& shape) {
  const std::int64_t nodes = shape.nodes, edges = shape.edges, counted = shape.counted;
  const std::string by_edge = "edge_offsets", by_counted = "node_offsets";
  const auto packed = [](std::string name, FieldKind kind, DType dtype, const Shape& rows, std::string lengths) {
    return SampleField{.name = std::move(name),
                       .kind = kind,
                       .dtype = dtype,
                       .shape = rows,
                       .collation = Collation::packed,
                       .lengths = std::move(lengths)};
  };
  SampleFields fields{packed("features", FieldKind::number, DType::f32, {nodes, shape.features}, ""),
                      packed("degrees", FieldKind::number, DType::i32, {nodes}, ""),
                      packed("sources", FieldKind::edges, DType::i32, {edges}, by_edge)};
  if (!shape.symmetric) {
    fields.push_back(packed("out_degrees", FieldKind::number, DType::i32, {nodes}, ""));
    fields.push_back(packed("targets", FieldKind::edges, DType::i32, {edges}, by_edge));
  }
  if (shape.weighted) fields.push_back(packed("weights", FieldKind::number, DType::f32, {edges}, by_edge));
  fields.push_back(packed("nodes", FieldKind::edges, DType::i64, {counted}, by_counted));
  fields.push_back(packed("labels", FieldKind::label, shape.several ? DType::f32 : DType::i64,
                          shape.several ? Shape{counted, shape.classes} : Shape{counted}, by_counted));
  if (!shape.several) fields.back().below = shape.classes;
  return fields;
}

std::vector<std::string> numbered_classes(std::int64_t classes) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < classes; ++i) names.push_back(std::to_string(i));
  return names;
}

NodeGraphDataset::NodeGraphDataset(DatasetInfo info, std::shared_ptr<const NodeGraph> graph, Split split,
                                   NodeSplit evaluated)
    : Dataset(std::move(info)), graph_(std::move(graph)), edges_(edges_in(*graph_, split)) {
  const AllocationScope scope({data, Label("graph"), {}});
  const std::vector<std::int64_t> nodes = counted_nodes(*graph_, split, evaluated);
  const auto count = std::ssize(nodes);
  nodes_ = Tensor::empty({count}, DType::i64, Device::cpu, data);
  std::ranges::copy(nodes, nodes_.data<std::int64_t>());
  const Tensor& all = graph_->labels;
  const std::int64_t row = all.bytes() / std::max<std::int64_t>(1, all.shape()[0]);
  labels_ = Tensor::empty(all.shape().rank() == 1 ? Shape{count} : Shape{count, all.shape()[1]}, all.dtype(),
                          Device::cpu, data);
  for (std::int64_t i = 0; i < count; ++i)
    std::memcpy(labels_.raw() + i * row, all.data<const std::byte>() + nodes[static_cast<std::size_t>(i)] * row,
                static_cast<std::size_t>(row));
}

std::string NodeGraphDataset::origin(std::int64_t row) const {
  const std::int64_t node = nodes_.data<const std::int64_t>()[row];
  return ids().empty() ? fmt::format("node {}", node) : fmt::format("node {}", ids()[static_cast<std::size_t>(node)]);
}

void NodeGraphDataset::read_sample(std::int64_t, Sample& sample) const {
  sample.set("features", graph_->features);
  sample.set("degrees", edges_.degrees);
  sample.set("sources", edges_.sources);
  if (edges_.targets.defined()) {
    sample.set("out_degrees", edges_.out_degrees);
    sample.set("targets", edges_.targets);
  }
  if (edges_.weights.defined()) sample.set("weights", edges_.weights);
  sample.set("nodes", nodes_);
  sample.set("labels", labels_);
}

}  // namespace lacuna
