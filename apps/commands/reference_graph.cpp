#include "apps/commands/reference_graph.h"

#include "data/collate.h"
#include "data/graphs/graph_files.h"

namespace lacuna {

bool has_reference_graph(const SafetensorsFile& file) { return file.contains("input/edges"); }

Batch load_reference_graph(const SafetensorsFile& file) {
  const std::string origin = file.path().string();
  for (const char* const name : {"input/features", "input/edges", "input/train_mask", "target"})
    if (!file.contains(name)) reject("{}: a reference of a graph: `{}` is missing", origin, name);
  auto graph = std::make_shared<NodeGraph>();
  graph->features = file.load("input/features").to(DType::f32);
  const Tensor edges = file.load("input/edges"), mask = file.load("input/train_mask");
  graph->labels = file.load("target");
  const std::int64_t nodes = graph->features.shape().front();
  const bool several = graph->labels.dtype() == DType::f32;
  if (graph->features.shape().rank() != 2 || edges.dtype() != DType::i64 || edges.shape().rank() != 2 ||
      edges.shape()[0] != 2 || mask.count() != nodes || graph->labels.shape().rank() != (several ? 2 : 1) ||
      graph->labels.shape()[0] != nodes || (!several && graph->labels.dtype() != DType::i64))
    reject(
        "{}: expected `input/features` [V, F], `input/edges` i64 [2, E], `input/train_mask` [V] and `target` "
        "i64 [V] or f32 [V, C], got {}, {}, {} and {}",
        origin, graph->features.shape(), edges.shape(), mask.shape(), graph->labels.shape());
  Arcs arcs;
  const std::int64_t count = edges.shape()[1];
  const auto node = [&](std::int64_t at) {
    const std::int64_t v = edges.data<const std::int64_t>()[at];
    if (v < 0 || v >= nodes) reject("{}: edge {} names node {}, expected 0 to {}", origin, at % count, v, nodes - 1);
    return static_cast<std::int32_t>(v);
  };
  for (std::int64_t e = 0; e < count; ++e) {
    arcs.from.push_back(node(e));
    arcs.to.push_back(node(count + e));
  }
  graph->edges = edges_of(std::move(arcs), nodes, false, origin);
  for (const double marked : mask.to_vector()) graph->split.push_back(marked != 0 ? NodeSplit::train : NodeSplit::none);
  if (several) {
    graph->classes = numbered_classes(graph->labels.shape()[1]);
  } else {
    const auto* const label = graph->labels.data<const std::int64_t>();
    set_labels({label, label + nodes}, origin, *graph);
  }
  const NodeGraphShape shape = shape_of(*graph, Split::train, NodeSplit::val);
  const NodeGraphDataset samples({.name = origin, .size = 1, .fields = fields_of(shape)}, graph, Split::train,
                                 NodeSplit::val);
  std::vector<Sample> one(1);
  one.front().begin(0);
  samples.read(0, one.front());
  return collate(one, samples.info().fields);
}

}  // namespace lacuna
