// Nodes: the recorded steps of a forward pass, as backward runs them.
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

/// Gradients of leaves outside the leaves themselves, in the order in which they first came, so that sums over all of
/// them have the same bits in every run.
class LeafGradients {
 public:
  using Entry = std::pair<const Leaf*, Tensor>;
  /// Undefined at first. The reference stays valid.
  Tensor& operator[](const Leaf* leaf);
  const Tensor& at(const Leaf* leaf) const { return entries_.at(places_.at(leaf)).second; }
  std::deque<Entry>::const_iterator begin() const { return entries_.begin(); }
  std::deque<Entry>::const_iterator end() const { return entries_.end(); }

 private:
  std::deque<Entry> entries_;
  std::unordered_map<const Leaf*, std::size_t> places_;
};

/// Tells a node from those of all tapes.
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
  /// The gradient that has gathered at the end of the edge, if nobody else sees it: an op may add to it in place.
  virtual Tensor take_gradient(const Edge& edge) = 0;
  virtual void accumulate_grad(const Node& node, std::size_t input, Tensor gradient) = 0;
  /// The node has read what was saved for it.
  virtual void release_readers(Node& node) = 0;
  /// The pass has gone by one of the nodes that read the leaf.
  virtual void leaf_done(const Leaf& leaf) = 0;
  /// Collects the gradients of parameters in place of the leaves, as torch.autograd.grad does; null: the leaves do.
  virtual LeafGradients* leaf_gradients() = 0;
  virtual Observer* observer() = 0;
  /// For the nodes of a region that runs again; may be null.
  virtual const NodeHook& before_node() const = 0;
  /// The ledger's purpose for memory that a node allocates.
  virtual Purpose purpose() const { return Purpose::transient; }
};

/// One recorded op (op_node.h) or checkpointed region (checkpoint.cpp).
struct Node {
  virtual ~Node() = default;
  /// Computes gradients of the inputs from those of the outputs, and gives them to `pass`. A gradient is undefined
  /// where no loss depends on that output; at least one is not.
  virtual void backward(std::vector<Tensor> output_gradients, BackwardPass& pass) = 0;

  Label op;                                     // its name
  Label path;                                   // of the module that ran it
  std::vector<Edge> edges{};                    // where each input's gradient goes
  std::vector<Shape> inputs{};                  // as the op saw them
  std::vector<Shape> outputs{};                 // those with a gradient
  std::vector<Tensor> gradients{};              // of the outputs, as far as backward has come
  std::vector<SavedTensorPtr> saved{};          // that backward reads; null where no wanted gradient needs one
  std::vector<Shape> saved_shapes{};            // the shapes those tensors had for the op
  std::vector<std::shared_ptr<Leaf>> leaves{};  // that the node reads without an edge: parameters in a region
};

}  // namespace lacuna
