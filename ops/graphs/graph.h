// Graphs as ops read them: neighbours by node (CSR).
#pragma once

#include "core/tensor.h"

#include <cstdint>
#include <memory>
#include <mutex>

namespace lacuna {

/// For each of V nodes the nodes at the other end of its edges.
struct Neighbours {
  Tensor starts;    // i64 [V + 1]: node v has the entries [starts[v], starts[v + 1])
  Tensor nodes;     // i32 [E]
  Tensor pieces{};  // for cuda, i32 [pieces, 2]: the pieces of nodes with many entries (ops/graphs/edge_pieces.h)
};

/// Edges as a batch has them, on the host: how many each node has, i32 [V], and the other ends, i32 [E], node by node.
struct EdgeLists {
  Tensor degrees, nodes;
};

class Graph;
using GraphPtr = std::shared_ptr<const Graph>;

/// A directed graph, whose edges carry messages from a source to a target. Like Sequences, ops have it as an
/// attribute and save nothing of it: all ops of a model share one.
class Graph {
 public:
  /// `incoming`: for each target the sources; `outgoing`: for each source the targets, in the order of the targets;
  /// undefined where both are the same, as for undirected graphs. `weights` f32 [E], of the incoming entries, or
  /// undefined: 1. Rejects degrees that do not add up to E, and nodes outside [0, V). On `meta` nothing is read.
  static GraphPtr make(const EdgeLists& incoming, const EdgeLists& outgoing, const Tensor& weights, Device device);

  std::int64_t nodes() const { return nodes_; }
  std::int64_t edges() const { return incoming_.nodes.count(); }
  const Neighbours& incoming() const { return incoming_; }
  const Neighbours& outgoing() const { return outgoing_.nodes.defined() ? outgoing_ : incoming_; }
  /// f32 [E], of the incoming entries; undefined: all are 1.
  const Tensor& weights() const { return weights_; }
  /// D^-1/2, f32 [V]: D is the sum of the weights of the edges that end in a node. 0 where that is 0.
  const Tensor& scale() const { return scale_; }
  /// The same graph on `device`: itself on its own and on `meta`, a copy that is made once elsewhere. Thread-safe.
  const Graph& at(Device device) const;
  /// For each outgoing entry the incoming entry of the same edge, i32 [E]. Made when first asked for. Thread-safe.
  const Tensor& places() const;

 private:
  Graph() = default;

  std::int64_t nodes_ = 0;
  Neighbours incoming_, outgoing_;
  Tensor weights_, scale_;
  EdgeLists incoming_on_host_, outgoing_on_host_;
  Tensor weights_on_host_;
  mutable std::mutex mutex_;
  mutable Tensor places_;
  mutable GraphPtr elsewhere_;
};

}  // namespace lacuna
