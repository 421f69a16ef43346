// The description of an op for the tape.
//
// An op is a plain struct: its members are its attributes (stride, eps), its functions are `forward` and `backward`,
// and it has up to two tables:
//
//   saves           the tensors that `backward` reads, like PyTorch's ctx.save_for_backward. A row names the tensor,
//   the
//                   precision it is needed in, and the inputs whose gradients need it.
//   rematerializes  for cheap ops only: the tensors from which `rematerialize` recomputes the output. The tape may then
//                   free the output after forward.
//
// A gradient is *wanted* if its input requires one (Variable::requires_grad). The tape saves the tensor of a row only
// if the gradient of an input in `for_grad_of` is wanted (add_op in autograd/tape.cpp): Linear needs x only for the
// gradient of its weight, so a layer with a frozen weight does not save x.
//
// The memory policy (autograd/policy.h), not the op, decides how a saved tensor is held between forward and backward:
// kept, quantized, reduced to signs or rematerialized. `backward` gets each of its tensors as an Operand
// (ops/operand.h). Reading a tensor that `saves` does not list fails to compile; reading a row that no wanted gradient
// needs throws.
// ops/products/linear.h is a short example; docs/adding-an-op.md builds one step by step.
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

namespace quant {
struct SlopeLevels;
}

class Operand;

/// The maximum number of inputs, and of outputs, of an op.
inline constexpr int max_inputs = 32;

namespace detail {
/// Returns `index` if it is in [0, max_inputs). Otherwise throws Error, or fails to compile in a constant expression.
constexpr unsigned checked_index(int index) {
  if (index < 0 || index >= max_inputs)
    fail("inputs and outputs of an op are numbered 0 to {}, got {}", max_inputs - 1, index);
  return static_cast<unsigned>(index);
}
}  // namespace detail

/// A tensor of an op: input i, output i or extra output i. Extra outputs have no gradient: they are statistics and
/// indices for backward or for a module (a batch norm's mean and variance for its running statistics). An op may leave
/// them out.
struct Source {
  enum class Kind : std::uint8_t { input, output, extra_output };
  Kind kind;
  std::uint8_t index;
  constexpr bool operator==(const Source&) const = default;
};
constexpr Source input(int index) {
  return {Source::Kind::input, static_cast<std::uint8_t>(detail::checked_index(index))};
}
constexpr Source nth_output(int index) {
  return {Source::Kind::output, static_cast<std::uint8_t>(detail::checked_index(index))};
}
constexpr Source extra_output(int index) {
  return {Source::Kind::extra_output, static_cast<std::uint8_t>(detail::checked_index(index))};
}
/// The output of a single-output op.
inline constexpr Source output = nth_output(0);

/// The precision in which backward needs a saved tensor. A tensor with several readers is held for the strongest need.
enum class Need : std::uint8_t {
  sign,   // one bit per element: positive or zero. For tensors without negative elements (a ReLU's output)
  value,  // the values, which a lossy policy may quantize
  exact,  // bitwise as in forward: weights, indices, statistics
};

std::string_view name_of(Need need);

/// Elements of a saved tensor with a similar range, for policies that quantize in groups.
enum class Groups : std::uint8_t {
  run,    // consecutive elements
  head,   // one attention head: index h of [B, H, L, d]; otherwise a slice of the last axis, [..., heads · d]
  token,  // one row; rows have different ranges (a layer norm's input)
};

/// The kind of an op, for policies that treat some kinds differently.
enum class OpKind : std::uint8_t { other, linear, convolution, matmul, softmax, activation, norm };

/// A set of inputs of one op. Input numbers outside [0, max_inputs) are errors.
class InputSet {
 public:
  constexpr InputSet() = default;
  constexpr InputSet(std::initializer_list<int> inputs) {
    for (const int i : inputs) insert(i);
  }
  constexpr void insert(int i) { bits_ |= 1U << detail::checked_index(i); }
  constexpr bool contains(int i) const { return (bits_ >> detail::checked_index(i) & 1U) != 0; }
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

/// When a row of `saves` counts. Backward works without rows that do not count, and computes them again.
enum class When : std::uint8_t {
  always,
  lossless,  // under policies that quantize nothing
  held,      // as `lossless`, where forward gave extra outputs, and if another op has the tensor kept: costs no memory
};

/// A row of `saves`: backward reads `from` if the gradient of any input in `for_grad_of` is wanted.
struct Save {
  Source from;
  Need need;
  InputSet for_grad_of;
  Groups groups = Groups::run;
  bool optional = false;  // with Need::sign: a policy may drop it; backward then computes the signs from other rows
  When when = When::always;
};

/// A row of `rematerializes`: to compute rows [b, e) of the output, `rematerialize` reads rows [b, e) of `from` if
/// `by_rows`, otherwise all of it. `in_codes`: where they are quantized, a GPU may get the codes (RematInputs::codes).
struct Remat {
  Source from;
  bool by_rows;
  bool in_codes = false;
};
constexpr Remat rows_of(Source from) { return {from, true}; }
constexpr Remat all_of(Source from) { return {from, false}; }
/// It has as many elements as the output, or as the parts of it that a gate multiplies have together.
constexpr Remat rows_or_codes_of(Source from) { return {from, true, true}; }

/// The saved tensors of one recorded op, indexed by row of its `saves`. The tape implements it.
class SavedTensors {
 public:
  virtual ~SavedTensors() = default;
  /// The tensor of a row in its forward shape. A row with Need::sign gets values or sign bits, or an undefined operand
  /// if the row is optional and the tensor was dropped. Other rows get values in any form.
  virtual Operand operand(std::size_t row) const = 0;
  /// False for an optional input or an extra output that was not given, and for a row that does not count (When).
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

/// The saved tensors that `Op::backward` may read: the rows of `Op::saves` with a wanted gradient in `for_grad_of`.
/// Reading another row throws Error.
template <class Op>
class Saved {
 public:
  explicit Saved(const SavedTensors& tensors) : tensors_(tensors) {}

  /// False if `from` is an optional input that forward was not given, an extra output that it did not give, or a row
  /// that does not count (When).
  template <Source from>
  bool has() const {
    return tensors_.present(row<from>());
  }
  /// The Operand of a saved tensor; include ops/operand.h to read it.
  template <Source from>
  auto get() const {
    return tensors_.operand(row<from>());
  }
  /// The tensor's shape in forward. Reads no values.
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

/// The inputs from which some rows of an op's output are recomputed.
struct RematRows {
  std::span<const Tensor> tensors;  // one for each row of `rematerializes`; undefined if an optional input is absent
  const Shape& shape;               // shape of the whole output
  std::int64_t first_row;           // index in the whole output of the first row to compute
  const Tensor& signs;              // see RematInputs::signs
  const Operand* codes = nullptr;   // one for each row of `rematerializes`, defined where codes take a tensor's place
};

/// The tensors that `Op::rematerialize` may read: those that `Op::rematerializes` lists.
template <class Op>
class RematInputs {
 public:
  explicit RematInputs(const RematRows& rows) : rows_(rows) {}

  /// The tensor `from`. Listed with `rows_of`: [rows, C], the rows that match the output rows to compute. Listed with
  /// `all_of`: the whole tensor.
  template <Source from>
  const Tensor& get() const {
    constexpr std::size_t found = detail::find_row(Op::rematerializes, from);
    static_assert(found < Op::rematerializes.size(),
                  "rematerialize reads a tensor that the op's `rematerializes` table does not list");
    return rows_.tensors[found];
  }
  /// The whole of `from`, listed with `rows_or_codes_of`, in codes that kernels on cuda decode (cuda::saved_codes);
  /// null: it is a tensor.
  template <Source from, class Complete = Operand>  // complete where ops call this, not here
  const Operand* codes() const {
    constexpr std::size_t found = detail::find_row(Op::rematerializes, from);
    static_assert(found < Op::rematerializes.size() && Op::rematerializes[found].in_codes);
    const Complete* const all = rows_.codes;
    return all == nullptr || rows_.tensors[found].defined() ? nullptr : all + found;
  }
  const Shape& shape() const { return rows_.shape; }
  std::int64_t first_row() const { return rows_.first_row; }
  std::int64_t first_element() const { return rows_.first_row * rows_.shape.back(); }
  /// The sign bits of the whole output (quant::pack_signs): 1 if the element was positive in forward. Undefined if the
  /// policy kept none. If defined, the tensors of `get` may be approximate, so a ReLU writes zeros where the bit is 0.
  const Tensor& signs() const { return rows_.signs; }

 private:
  const RematRows& rows_;
};

/// The gradients that a call of `backward` must compute.
class Grads {
 public:
  Grads(std::size_t inputs, InputSet wanted) : tensors_(inputs), wanted_(wanted) {}

  bool wanted(int input) const { return wanted_.contains(input); }
  InputSet wanted() const { return wanted_; }
  /// The gradient of an input, which `backward` assigns if it is wanted. If it is already defined, `backward` adds to
  /// it in place: another reader of the tensor has contributed, and the input is listed in `Op::accumulates_into`.
  Tensor& operator[](int input) { return tensors_[static_cast<std::size_t>(input)]; }
  std::size_t size() const { return tensors_.size(); }

 private:
  std::vector<Tensor> tensors_;
  InputSet wanted_;
};

/// The type-erased interface of an op, for the tape, policies and tests. `Bound<Op>` implements it for an op struct.
class Operation {
 public:
  virtual ~Operation() = default;
  virtual std::string_view name() const = 0;
  virtual OpKind kind() const = 0;
  /// The 2-bit slope levels of an activation, sufficient for backward in place of its input; null if the op has none.
  virtual const quant::SlopeLevels* slopes() const = 0;
  virtual std::span<const Save> saves() const = 0;
  /// Empty if the output cannot be rematerialized.
  virtual std::span<const Remat> rematerializes() const = 0;
  /// Inputs whose gradient `backward` can add to an existing one.
  virtual InputSet accumulates_into() const = 0;
  /// The number of heads of an attention op; 1 for other ops.
  virtual std::int64_t heads() const = 0;
  /// Multiply-adds of forward for an output of shape `y`, by the op's definition: Winograd convolutions count as direct
  /// ones. 0 without a matrix product.
  virtual std::int64_t macs(std::span<const Shape> inputs, const Shape& y) const = 0;
  /// The operands of the matrix product. Their gradients together take twice the multiply-adds of forward.
  virtual InputSet matmul_operands() const = 0;
  /// Returns the outputs and fills `extra_outputs`. Optional inputs may be undefined.
  virtual std::vector<Tensor> forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const = 0;
  /// `dy`: the gradient of each output, at least one defined. An undefined one counts as zero: no loss depends on that
  /// output. The op may overwrite a gradient if the caller moved its only reference in.
  virtual void backward(std::vector<Tensor> dy, const SavedTensors& saved, Grads& grads) const = 0;
  /// Writes rows of the output to `out` [rows, C], bitwise as in forward. Allocates no tensor, since threads on the CPU
  /// call it concurrently for different rows.
  virtual void rematerialize(const RematRows& from, const Tensor& out) const = 0;
};

/// The number of outputs with a gradient of an op struct.
template <class Op>
inline constexpr int outputs_of = 1;
template <class Op>
requires requires { Op::outputs; }
inline constexpr int outputs_of<Op> = Op::outputs;

/// Wraps an op struct as an Operation. An op has
///   static constexpr std::string_view name;
///   static constexpr std::array saves{Save{...}, ...};                     (or std::array<Save, 0>{})
///   Tensor forward(std::span<const Tensor> inputs[, std::vector<Tensor>& extra_outputs]) const;
///   void backward(Tensor dy, const Saved<Op>&, Grads&) const;
/// an op with several outputs that have gradients instead
///   static constexpr int outputs = 2;
///   std::vector<Tensor> forward(...) const;                                (parameters as above)
///   void backward(std::vector<Tensor> dy, const Saved<Op>&, Grads&) const;
/// a cheap op with one output also
///   static constexpr std::array rematerializes{rows_of(...), ...};
///   void rematerialize(const RematInputs<Op>&, const Tensor& out) const;
/// an op whose backward adds to existing gradients
///   static constexpr InputSet accumulates_into{...};
/// an op that multiplies matrices
///   static constexpr InputSet matmul_operands{...};
///   std::int64_t macs(std::span<const Shape> inputs, const Shape& y) const;
/// an op of a kind that policies know
///   static constexpr OpKind kind = OpKind::norm;
/// an activation whose backward can use 2 bits of its slope per element
///   static constexpr const quant::SlopeLevels* slopes = &quant::...;
template <class Op>
class Bound final : public Operation {
  static_assert(
      outputs_of<Op> == 1 || !requires { Op::rematerializes; }, "only a single output is rematerialized");

 public:
  explicit Bound(Op op) : op_(std::move(op)) {}

  std::string_view name() const override { return Op::name; }
  OpKind kind() const override {
    if constexpr (requires { Op::kind; })
      return Op::kind;
    else
      return OpKind::other;
  }
  const quant::SlopeLevels* slopes() const override {
    if constexpr (requires { Op::slopes; })
      return Op::slopes;
    else
      return nullptr;
  }
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
  std::vector<Tensor> forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const override {
    const KernelScope scope;
    const auto run = [&] {
      if constexpr (requires { op_.forward(inputs, extra_outputs); })
        return op_.forward(inputs, extra_outputs);
      else
        return op_.forward(inputs);
    };
    if constexpr (outputs_of<Op> == 1) {
      std::vector<Tensor> one;
      one.push_back(run());
      return one;
    } else {
      return run();
    }
  }
  void backward(std::vector<Tensor> dy, const SavedTensors& saved, Grads& grads) const override {
    const KernelScope scope;
    if constexpr (outputs_of<Op> == 1)
      op_.backward(std::move(dy.front()), Saved<Op>(saved), grads);
    else
      op_.backward(std::move(dy), Saved<Op>(saved), grads);
  }
  void rematerialize(const RematRows& from, const Tensor& out) const override {
    const KernelScope scope;
    if constexpr (requires { Op::rematerializes; })
      op_.rematerialize(RematInputs<Op>(from), out);
    else
      fail("{} cannot be rematerialized", Op::name);
  }

 private:
  Op op_;
};

/// Names of all registered ops. The op matrix (tests/ops/op_matrix.cpp) fails for an op without a sample.
std::vector<std::string_view>& op_names();

/// Registers an op, as a static object in the op's source file: `const RegisterOp<Linear> linear;`.
template <class Op>
struct RegisterOp {
  RegisterOp() { op_names().push_back(Op::name); }
};

}  // namespace lacuna
