// Nodes of the autograd graph: the recorded ops of a forward pass, which backward runs.
#pragma once

#include "autograd/observer.h"
#include "autograd/saved_tensor.h"
#include "autograd/variable.h"

#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lacuna {

struct Node;

/// Gradients of leaves, stored outside the leaves. They are ordered by their first arrival, so sums over all of them
/// are bitwise reproducible.
class LeafGradients {
 public:
  using Entry = std::pair<const Leaf*, Tensor>;
  /// The gradient of a leaf, initially undefined. The reference stays valid.
  Tensor& operator[](const Leaf* leaf);
  const Tensor& at(const Leaf* leaf) const { return entries_.at(places_.at(leaf)).second; }
  std::deque<Entry>::const_iterator begin() const { return entries_.begin(); }
  std::deque<Entry>::const_iterator end() const { return entries_.end(); }

 private:
  std::deque<Entry> entries_;
  std::unordered_map<const Leaf*, std::size_t> places_;
};

/// An id that is unique among the nodes of all tapes.
constexpr std::int64_t node_id(std::uint64_t tape, std::int64_t number) {
  return static_cast<std::int64_t>(tape << 32) | number;
}
/// Called with a node and its id when the gradients of its outputs are complete.
using NodeHook = std::function<void(Node&, std::int64_t)>;

/// The receiver of the results of a node's backward: the tape's own backward pass, or a calibration that runs a node
/// again.
class BackwardPass {
 public:
  virtual ~BackwardPass() = default;
  /// Takes the gradient accumulated so far at the end of the edge, if no other reference exists, so that an op can add
  /// to it in place.
  virtual Tensor take_gradient(const Edge& edge) = 0;
  virtual void accumulate_grad(const Node& node, std::size_t input, Tensor gradient) = 0;
  /// Releases the node's saved tensors once it has read them.
  virtual void release_readers(Node& node) = 0;
  /// Reports that the pass is done with one of the nodes that read the leaf.
  virtual void leaf_done(const Leaf& leaf) = 0;
  /// A map that receives the gradients of parameters in place of the leaves, as with torch.autograd.grad; null: the
  /// leaves accumulate them.
  virtual LeafGradients* leaf_gradients() = 0;
  virtual Observer* observer() = 0;
  /// The hook for the nodes of a recomputed region; may be null.
  virtual const NodeHook& before_node() const = 0;
  /// The ledger's purpose for memory that a node allocates.
  virtual Purpose purpose() const { return Purpose::transient; }
};

/// One recorded op (op_node.h) or checkpointed region (checkpoint.cpp).
struct Node {
  virtual ~Node() = default;
  /// Computes the gradients of the inputs from those of the outputs, and hands them to `pass`. An output's gradient is
  /// undefined if no loss depends on the output; at least one is defined.
  virtual void backward(std::vector<Tensor> output_gradients, BackwardPass& pass) = 0;

  Label op;                                     // the op's name
  Label path;                                   // path of the module that ran it
  std::vector<Edge> edges{};                    // the destination of each input's gradient
  std::vector<Shape> inputs{};                  // shapes as the op saw them
  std::vector<Shape> outputs{};                 // shapes of the outputs that have a gradient
  std::vector<Tensor> gradients{};              // gradients of the outputs, accumulated so far
  std::vector<SavedTensorPtr> saved{};          // tensors that backward reads; null if no wanted gradient needs one
  std::vector<Shape> saved_shapes{};            // shapes of those tensors as the op saw them
  std::vector<std::shared_ptr<Leaf>> leaves{};  // leaves read without an edge: parameters in a region
};

}  // namespace lacuna
