// A tensor that the tape knows.
#pragma once

#include "autograd/saved_tensor.h"

#include <memory>
#include <optional>

namespace lacuna {

/// Where a leaf's gradient gathers.
struct Leaf {
  Shape shape;
  Label path;
  Tensor gradient;                       // undefined until a backward pass reached the leaf
  Purpose purpose = Purpose::gradients;  // what the gradient counts as
  std::optional<DType> gradient_type{};  // what it is stored as; nothing: as it comes
};

/// Where the gradient of a value goes: to a node of a tape, to a leaf, or nowhere.
struct Edge {
  std::uint64_t tape = 0;
  std::int64_t node = -1;
  std::shared_ptr<Leaf> leaf;
  bool leads_somewhere() const { return node >= 0 || leaf != nullptr; }
};

/// A handle: copies name the same value. While one names it, nothing about saving it is decided; a caller that is done
/// with a value moves its variable into the next op.
class Variable {
 public:
  Variable() = default;  // undefined: an absent optional input
  /// A constant, or a leaf that gathers a gradient. `path` names it in reports.
  explicit Variable(Tensor tensor, bool requires_grad = false, std::string_view path = {});

  /// False for a default-constructed variable and for one that was moved away: all but requires_grad and leaf is an
  /// error then.
  bool defined() const { return value_ != nullptr; }
  const Tensor& tensor() const { return value().tensor; }
  const Shape& shape() const { return tensor().shape(); }
  DType dtype() const { return tensor().dtype(); }
  Device device() const { return tensor().device(); }
  /// A leaf's name, or a constant's.
  std::string_view path() const { return value().path.text(); }

  /// Whether some leaf behind this value wants a gradient.
  bool requires_grad() const { return value_ && value_->edge.leads_somewhere(); }
  /// Leaves only: whether to gather a gradient from now on.
  void set_requires_grad(bool wanted);
  /// Leaves that want one only: the gathered gradient, undefined when there is none yet.
  const Tensor& grad() const;
  void set_grad(Tensor gradient);
  /// Stores the gradient as `type` from now on.
  void set_gradient_type(DType type);
  /// What the tape calls this leaf; null for all but leaves that want a gradient.
  const Leaf* leaf() const { return value_ ? value_->edge.leaf.get() : nullptr; }

  /// The same value under another shape: free, in both directions.
  Variable reshape(const Shape& shape) const;
  /// The same tensor as a constant.
  Variable detach() const { return Variable(tensor()); }

 private:
  friend class Tape;
  struct Value {
    Tensor tensor;
    Edge edge;
    SavedTensorPtr slot;  // on the tape that saw it last
    Label path;
    bool is_leaf = true;
    ~Value();
  };
  Value& value() const {
    expect(value_ != nullptr, "an undefined variable is used: it was never given a value, or it was moved away");
    return *value_;
  }
  std::shared_ptr<Value> value_;
};

}  // namespace lacuna
