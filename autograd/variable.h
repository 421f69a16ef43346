// Variables: tensors that the tape tracks, and leaves that accumulate gradients.
#pragma once

#include "core/op.h"

#include <memory>
#include <optional>
#include <string_view>

namespace lacuna {

class SavedTensor;
using SavedTensorPtr = std::shared_ptr<SavedTensor>;

struct Leaf;

/// The destination of a value's gradient: an output of a node, a leaf, or nowhere.
struct Edge {
  std::uint64_t tape = 0;
  std::int64_t node = -1;
  int output = 0;
  std::shared_ptr<Leaf> leaf;
  bool leads_somewhere() const { return node >= 0 || leaf != nullptr; }
};

/// A tensor that accumulates a gradient: a parameter, or an input that requires one.
struct Leaf {
  Shape shape;
  Label path;
  Tensor gradient;                       // undefined until a backward pass reaches the leaf
  Purpose purpose = Purpose::gradients;  // purpose of the gradient's memory
  std::optional<DType> gradient_type{};  // type to store the gradient in; empty: as computed
  Edge onward{};                         // for an input of a recomputed region: destination of its gradient
};

/// A handle to a tensor; copies name the same value. The tape decides how to hold a value for backward only once no
/// variable names it, so a caller that is done with a value should move it into the next op.
class Variable {
 public:
  Variable() = default;  // undefined: an absent optional input
  /// A constant, or a leaf that accumulates a gradient. `path` names it in reports.
  explicit Variable(Tensor tensor, bool requires_grad = false, std::string_view path = {});
  /// The result of an op in the module at `path`.
  static Variable computed(Tensor tensor, Label path);

  /// False for a default-constructed or moved-from variable, whose accessors except requires_grad and leaf throw.
  bool defined() const { return value_ != nullptr; }
  const Tensor& tensor() const { return value().tensor; }
  const Shape& shape() const { return tensor().shape(); }
  DType dtype() const { return tensor().dtype(); }
  Device device() const { return tensor().device(); }
  /// The name of a leaf or constant.
  std::string_view path() const { return value().path.text(); }

  /// Whether the gradient of some leaf depends on this value.
  bool requires_grad() const { return value_ && value_->edge.leads_somewhere(); }
  /// Sets whether a leaf or constant accumulates a gradient.
  void set_requires_grad(bool wanted);
  /// The leaf's accumulated gradient; undefined if there is none yet.
  const Tensor& grad() const { return gathering().gradient; }
  void set_grad(Tensor gradient) { gathering().gradient = std::move(gradient); }
  /// Stores the gradient as `type` from now on.
  void set_gradient_type(DType type);
  /// The leaf; null for variables that are not leaves requiring a gradient.
  const Leaf* leaf() const { return value_ ? value_->edge.leaf.get() : nullptr; }
  const Edge& edge() const { return value().edge; }

  /// The same value under another shape. Copies nothing in forward or backward.
  Variable reshape(const Shape& shape) const;
  /// The same tensor as a constant.
  Variable detach() const;

 private:
  friend class Tape;
  struct Value {
    Tensor tensor;
    Edge edge;
    SavedTensorPtr saved;  // on the tape that used it last
    Label path;
    bool is_leaf = true;
    ~Value();
  };
  Value& value() const {
    if (value_ == nullptr) [[unlikely]]
      throw_undefined();
    return *value_;
  }
  Leaf& gathering() const;
  /// A variable that names this value's tensor under another shape.
  Variable alias(const Shape& shape) const;
  [[noreturn]] static void throw_undefined();

  std::shared_ptr<Value> value_;
};

}  // namespace lacuna
