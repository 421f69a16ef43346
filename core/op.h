// What an op tells the tape about itself.
//
// An op is a plain struct: its members are its attributes (stride, eps), its functions are `forward` and `backward`,
// and it has up to two tables:
//
//   saves           the tensors that `backward` reads. A row names the tensor, how exactly it is needed, and the inputs
//                   whose gradients need it. The tape saves a tensor only if an input of that row requires a gradient:
//                   Linear saves x for the gradient of its weight, so a frozen weight saves no x.
//   rematerializes  of cheap ops only: the tensors from which `rematerialize` computes the output again. The tape may
//                   then free the output after forward.
//
// How a saved tensor is held between forward and backward (kept, quantized, as signs, rematerialized) is decided by the
// memory policy (autograd/policy.h), not by the op. `backward` gets each of its tensors as an Operand (ops/operand.h).
// The tables are the only way to a saved tensor: reading one that they do not list does not compile.
// ops/linear.h is a short example; docs/adding-an-op.md builds one step by step.
#pragma once

#include "core/tensor.h"
#include "core/version.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace lacuna {

class Operand;

/// Inputs of one op at most.
inline constexpr int max_inputs = 32;

namespace detail {
/// `index` if it is the number of an input, an error otherwise: one of the compiler in a constant expression.
constexpr unsigned checked_input(int index) {
  if (index < 0 || index >= max_inputs) fail("an op's inputs are numbered 0 to {}, got {}", max_inputs - 1, index);
  return static_cast<unsigned>(index);
}
}  // namespace detail

/// A tensor of an op: input i, the output, or extra output i. Extra outputs have no gradient; backward reads them, or a
/// module (the batch's mean and variance of a batch norm).
struct Source {
  enum class Kind : std::uint8_t { input, output, extra_output };
  Kind kind;
  std::uint8_t index;
  constexpr bool operator==(const Source&) const = default;
};
constexpr Source input(int index) {
  return {Source::Kind::input, static_cast<std::uint8_t>(detail::checked_input(index))};
}
constexpr Source extra_output(int index) {
  return {Source::Kind::extra_output, static_cast<std::uint8_t>(detail::checked_input(index))};
}
inline constexpr Source output{Source::Kind::output, 0};

/// How exactly backward needs a saved tensor. A tensor with several readers is held for the strongest need.
enum class Need : std::uint8_t {
  sign,   // whether each element is positive; the tensor has no negative elements (the output of a ReLU)
  value,  // its values, which a lossy policy may quantize
  exact,  // the bits of forward: weights, indices, statistics
};

std::string_view name_of(Need need);

/// Which elements of a saved tensor have a similar range, for policies that quantize by groups.
enum class Groups : std::uint8_t {
  run,    // consecutive elements
  head,   // those of one attention head: the second of four extents, otherwise the last one, contains the heads
  token,  // those of one row; rows have different ranges (the input of a layer norm)
};

/// A set of inputs of one op. An input number that is negative or not below `max_inputs` is an error.
class InputSet {
 public:
  constexpr InputSet() = default;
  constexpr InputSet(std::initializer_list<int> inputs) {
    for (const int i : inputs) insert(i);
  }
  constexpr void insert(int i) { bits_ |= 1U << detail::checked_input(i); }
  constexpr bool contains(int i) const { return (bits_ >> detail::checked_input(i) & 1U) != 0; }
  constexpr bool intersects(InputSet other) const { return (bits_ & other.bits_) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr InputSet operator&(InputSet other) const {
    other.bits_ &= bits_;
    return other;
  }
  constexpr int size() const { return std::popcount(bits_); }

 private:
  std::uint32_t bits_ = 0;
};

/// A row of `saves`: backward reads `from` if the gradient of any input in `for_grad_of` is wanted.
struct Save {
  Source from;
  Need need;
  InputSet for_grad_of;
  Groups groups = Groups::run;
  bool optional = false;  // of Need::sign: backward can do without, and finds the signs from its other rows
};

/// A row of `rematerializes`: rows [b, e) of the output are computed from rows [b, e) of `from` (`by_rows`), or from
/// all of it.
struct Remat {
  Source from;
  bool by_rows;
};
constexpr Remat rows_of(Source from) { return {from, true}; }
constexpr Remat all_of(Source from) { return {from, false}; }

/// The saved tensors of one recorded op, by row of its `saves`. Implemented by the tape.
class SavedTensors {
 public:
  virtual ~SavedTensors() = default;
  /// The tensor of a row in the shape it had in forward. Its `form` fits the row's need: Need::sign gets kept values,
  /// sign bits, or an undefined operand if the row is optional; other rows never get sign bits.
  virtual Operand operand(std::size_t row) const = 0;
  /// False for an optional input that was not given.
  virtual bool present(std::size_t /*row*/) const { return true; }
  virtual Shape shape(std::size_t row) const = 0;
};

namespace detail {
template <class Table>
consteval std::size_t find_row(const Table& table, Source from) {
  for (std::size_t i = 0; i < table.size(); ++i)
    if (table[i].from == from) return i;
  return table.size();
}
}  // namespace detail

/// What `Op::backward` may read: the rows of `Op::saves` that the wanted gradients need. Reading another row throws.
template <class Op>
class Saved {
 public:
  explicit Saved(const SavedTensors& tensors) : tensors_(tensors) {}

  /// False for an optional input that was not given.
  template <Source from>
  bool has() const {
    return tensors_.present(row<from>());
  }
  /// The Operand of a saved tensor; include ops/operand.h to read it.
  template <Source from>
  auto get() const {
    return tensors_.operand(row<from>());
  }
  /// Its shape in forward. Reads no value.
  template <Source from>
  Shape shape() const {
    return tensors_.shape(row<from>());
  }

 private:
  template <Source from>
  static consteval std::size_t row() {
    constexpr std::size_t found = detail::find_row(Op::saves, from);
    static_assert(found < Op::saves.size(), "backward reads a tensor that the op's `saves` table does not list");
    return found;
  }
  const SavedTensors& tensors_;
};

/// What is at hand to compute some rows of an op's output again.
struct RematRows {
  std::span<const Tensor> tensors;  // as the op's `rematerializes`: the rows [rows, C], or all; undefined if absent
  const Shape& shape;               // of the whole output
  std::int64_t first_row;           // of the wanted rows, in the whole output
  const Tensor& signs;              // see RematInputs::signs
};

/// What `Op::rematerialize` may read: the rows of `Op::rematerializes`.
template <class Op>
class RematInputs {
 public:
  explicit RematInputs(const RematRows& rows) : rows_(rows) {}

  /// The rows [rows, C] of the tensor that belong to the wanted rows of the output, or all of it, as the table says.
  template <Source from>
  const Tensor& get() const {
    constexpr std::size_t found = detail::find_row(Op::rematerializes, from);
    static_assert(found < Op::rematerializes.size(),
                  "rematerialize reads a tensor that the op's `rematerializes` table does not list");
    return rows_.tensors[found];
  }
  const Shape& shape() const { return rows_.shape; }
  std::int64_t first_row() const { return rows_.first_row; }
  std::int64_t first_element() const { return rows_.first_row * rows_.shape.back(); }
  /// Bits of the exact signs of the whole output (quant::pack_signs), if they were kept. The other tensors may then be
  /// quantized: an op that rectifies takes its zeros from here. Undefined otherwise.
  const Tensor& signs() const { return rows_.signs; }

 private:
  const RematRows& rows_;
};

/// The gradients that a call of `backward` has to compute.
class Grads {
 public:
  Grads(std::size_t inputs, InputSet wanted) : tensors_(inputs), wanted_(wanted) {}

  bool wanted(int input) const { return wanted_.contains(input); }
  InputSet wanted() const { return wanted_; }
  /// The gradient of an input, which `backward` assigns if it is wanted. Undefined before that, with one exception: an
  /// input in `Op::accumulates_into` may have a gradient already, to which `backward` adds in place.
  Tensor& operator[](int input) { return tensors_[static_cast<std::size_t>(input)]; }
  std::size_t size() const { return tensors_.size(); }

 private:
  std::vector<Tensor> tensors_;
  InputSet wanted_;
};

/// An op of any type, as the tape, the policies and the tests see it. `Bound<Op>` makes one of an op struct.
class Operation {
 public:
  virtual ~Operation() = default;
  virtual std::string_view name() const = 0;
  virtual std::span<const Save> saves() const = 0;
  /// Empty if the output cannot be rematerialized.
  virtual std::span<const Remat> rematerializes() const = 0;
  /// Inputs whose gradient `backward` can add to one that exists.
  virtual InputSet accumulates_into() const = 0;
  /// Heads of an attention op, 1 of others.
  virtual std::int64_t heads() const = 0;
  /// Multiply-adds of the forward pass by its definition, whatever a kernel saves of them; 0 of ops without a matrix
  /// product.
  virtual std::int64_t macs(std::span<const Shape> inputs, const Shape& y) const = 0;
  /// The inputs that are multiplied. Their gradients together take twice the multiply-adds of forward.
  virtual InputSet matmul_operands() const = 0;
  /// Returns the output and fills `extra_outputs`. Inputs that are optional may be undefined.
  virtual Tensor forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const = 0;
  /// `dy`: the gradient of the output. A caller that moves it in lets the op overwrite its memory.
  virtual void backward(Tensor dy, const SavedTensors& saved, Grads& grads) const = 0;
  /// Writes rows of the output into `out` [rows, C], with the bits of forward. Allocates no tensor: on the CPU, threads
  /// call it at the same time for different rows.
  virtual void rematerialize(const RematRows& from, const Tensor& out) const = 0;
};

/// Makes an Operation of an op struct. An op has
///   static constexpr std::string_view name;
///   static constexpr std::array saves{Save{...}, ...};                     (or std::array<Save, 0>{})
///   Tensor forward(std::span<const Tensor> inputs[, std::vector<Tensor>& extra_outputs]) const;
///   void backward(Tensor dy, const Saved<Op>&, Grads&) const;
/// a cheap op also
///   static constexpr std::array rematerializes{rows_of(...), ...};
///   void rematerialize(const RematInputs<Op>&, const Tensor& out) const;
/// an op whose backward adds to existing gradients
///   static constexpr InputSet accumulates_into{...};
/// an op that multiplies matrices
///   static constexpr InputSet matmul_operands{...};
///   std::int64_t macs(std::span<const Shape> inputs, const Shape& y) const;
template <class Op>
class Bound final : public Operation {
 public:
  explicit Bound(Op op) : op_(std::move(op)) {}

  std::string_view name() const override { return Op::name; }
  std::span<const Save> saves() const override { return Op::saves; }
  std::span<const Remat> rematerializes() const override {
    if constexpr (requires { Op::rematerializes; })
      return Op::rematerializes;
    else
      return {};
  }
  InputSet accumulates_into() const override {
    if constexpr (requires { Op::accumulates_into; })
      return Op::accumulates_into;
    else
      return {};
  }
  std::int64_t heads() const override {
    if constexpr (requires { op_.heads; })
      return op_.heads;
    else
      return 1;
  }
  std::int64_t macs(std::span<const Shape> inputs, const Shape& y) const override {
    constexpr bool counts = requires { op_.macs(inputs, y); };
    static_assert(
        counts == requires { Op::matmul_operands; }, "an op has both `matmul_operands` and `macs`, or neither");
    if constexpr (counts)
      return op_.macs(inputs, y);
    else
      return 0;
  }
  InputSet matmul_operands() const override {
    if constexpr (requires { Op::matmul_operands; })
      return Op::matmul_operands;
    else
      return {};
  }
  Tensor forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const override {
    if constexpr (requires { op_.forward(inputs, extra_outputs); })
      return op_.forward(inputs, extra_outputs);
    else
      return op_.forward(inputs);
  }
  void backward(Tensor dy, const SavedTensors& saved, Grads& grads) const override {
    op_.backward(std::move(dy), Saved<Op>(saved), grads);
  }
  void rematerialize(const RematRows& from, const Tensor& out) const override {
    if constexpr (requires { Op::rematerializes; })
      op_.rematerialize(RematInputs<Op>(from), out);
    else
      fail("{} cannot be rematerialized", Op::name);
  }

 private:
  Op op_;
};

/// Names of all registered ops. The op matrix in tests/ops requires a sample of each.
std::vector<std::string_view>& op_names();

/// A static object of this type in the op's source file registers the op.
template <class Op>
struct RegisterOp {
  RegisterOp() { op_names().push_back(Op::name); }
};

}  // namespace lacuna
