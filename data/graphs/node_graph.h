// A graph with features and labels of its nodes: one sample.
#pragma once

#include "data/dataset.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lacuna {

/// Edges from one node to another, in any order.
struct Arcs {
  std::vector<std::int32_t> from, to;
  std::vector<float> weights{};  // one each, or none: all are 1

  std::int64_t count() const { return static_cast<std::int64_t>(from.size()); }
};

/// Edges as models take them. Every node has one loop.
struct NodeEdges {
  Tensor degrees, sources;      // i32 [V] and [E]: by target, sources ascending
  Tensor out_degrees, targets;  // the same by source; undefined where that is the same
  Tensor weights;               // f32 [E] as `sources`; undefined: all are 1
  std::int64_t dropped = 0;     // arcs that were there already
};
/// Adds a loop to each node that has none, with `undirected` the reverse of each arc, and drops arcs that are there
/// already. Rejects nodes outside [0, nodes) and two weights of one edge, naming `file` and the nodes by `ids`, if any.
NodeEdges edges_of(Arcs arcs, std::int64_t nodes, bool undirected, const std::string& file,
                   const std::vector<std::string>& ids = {});

enum class NodeSplit : std::uint8_t { none, train, val, test };
std::array<std::pair<std::string_view, NodeSplit>, 4> names_of(NodeSplit);

struct NodeGraph {
  Tensor features;                    // f32 [V, F]
  Tensor labels;                      // i64 [V] (-1: none), or f32 [V, classes] of zeros and ones
  std::vector<NodeSplit> split;       // [V]
  NodeEdges edges, training_edges{};  // training_edges: where training sees fewer; undefined: the same
  std::vector<std::string> classes;   // names
  std::vector<std::string> ids{};     // [V] names of nodes, or none
};

/// The sizes of a graph, known before it is read or drawn.
struct NodeGraphShape {
  std::int64_t nodes = 0, edges = 0, features = 0, classes = 0;  // edges: with loops
  std::int64_t counted = 0;                                      // nodes of the split
  bool several = false, symmetric = true, weighted = false;
};
NodeGraphShape shape_of(const NodeGraph& graph, Split split, NodeSplit evaluated);
SampleFields fields_of(const NodeGraphShape& shape);
/// `0` to `classes - 1`.
std::vector<std::string> numbered_classes(std::int64_t classes);

/// The options of every data set of graphs.
struct NodeGraphOptions {
  NodeSplit evaluated = NodeSplit::val;

  static Fields fields();
};

/// Refuses sizes of splits and a split of no nodes that count.
void check_splits(const DatasetOptions& options, NodeSplit evaluated, std::int64_t counted, const std::string& origin);

/// A graph as the one sample of both splits: training has the labels of the nodes of `train`, validation those of
/// `evaluated`.
class NodeGraphDataset final : public Dataset {
 public:
  NodeGraphDataset(DatasetInfo info, std::shared_ptr<const NodeGraph> graph, Split split, NodeSplit evaluated);
  std::int64_t length(std::int64_t) const override { return graph_->features.shape()[0]; }
  /// Names of the nodes in the order of the files, or none.
  const std::vector<std::string>& ids() const { return graph_->ids; }
  /// Names the node of a row of the labels.
  std::string origin(std::int64_t row) const;

 private:
  void read_sample(std::int64_t index, Sample& sample) const override;

  std::shared_ptr<const NodeGraph> graph_;
  const NodeEdges& edges_;
  Tensor nodes_, labels_;  // i64 [M]; i64 [M], or f32 [M, classes]
};

}  // namespace lacuna
