// The vocabulary in which an op says what it remembers.
//
// An op is a plain struct: its members are its attributes, and beside its arithmetic stand two tables. `saves` lists
// every tensor its backward reads, how much of it, and for whose gradient; `derives` (for cheap ops only) lists what
// its output can be had again from. Backward and derive reach tensors through these tables alone: asking for anything
// else does not compile. docs/adding-an-op.md shows a whole op on one page.
#pragma once

#include "core/parallel.h"
#include "core/tensor.h"
#include "core/version.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

namespace lacuna {

/// A tensor an op touches. `extra_outputs` are results beside the output that only backward or a module's statistics
/// read.
struct Source {
  enum class Kind : std::uint8_t { input, output, extra_output };
  Kind kind;
  std::uint8_t index;
  constexpr bool operator==(const Source&) const = default;
};
constexpr Source input(int index) { return {Source::Kind::input, static_cast<std::uint8_t>(index)}; }
constexpr Source extra_output(int index) { return {Source::Kind::extra_output, static_cast<std::uint8_t>(index)}; }
inline constexpr Source output{Source::Kind::output, 0};

/// How much of a tensor backward needs; each includes the ones before it.
/// sign: whether an element is positive, of a tensor that is zero elsewhere. value: a number that a lossy policy may
/// approximate. exact: the very bits.
enum class Need : std::uint8_t { sign, value, exact };

std::string_view name_of(Need need);

/// Which elements of a saved tensor are alike, for codecs that keep a range per group.
/// head: the second extent of four, or else the last one, has the heads of an attention.
/// token: rows whose scales differ, as those of a layer norm's input.
enum class Groups : std::uint8_t { run, head, token };

/// Some of an op's inputs, by number.
class InputSet {
 public:
  constexpr InputSet() = default;
  constexpr InputSet(std::initializer_list<int> inputs) {
    for (const int i : inputs) insert(i);
  }
  constexpr void insert(int i) { bits_ |= 1U << static_cast<unsigned>(i); }
  constexpr bool contains(int i) const { return (bits_ >> static_cast<unsigned>(i) & 1U) != 0; }
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

/// One row of the table of saves.
struct Save {
  Source from;
  Need need;
  InputSet for_grad_of;
  Groups groups = Groups::run;
  bool optional = false;  // of a sign: backward finds it from its other rows where it is not kept
};

/// One row of the table of derivation: the output's rows [b, e) need this tensor's rows [b, e), or all of it; and where
/// the output is a curve of it, the variance of its errors.
struct Remat {
  Source from;
  bool by_rows;
  bool with_variance = false;
};
constexpr Remat rows_of(Source from) { return {from, true}; }
constexpr Remat all_of(Source from) { return {from, false}; }
constexpr Remat curve_of(Source from) { return {from, true, true}; }

/// Signs of a saved tensor: from its values, or from a bit mask where only that was kept. Neither where the row is
/// optional and nothing was kept.
struct Signs {
  Tensor values;  // the tensor itself, or undefined
  Tensor bits;    // u8 [ceil(count / 8)], bit i % 8 of byte i / 8 set where element i is positive; or undefined
};

/// How a saved tensor's rows are shared among threads. In blocks: of each, every thread has a consecutive part of whole
/// units, so that what it adds up depends on the rows' numbers alone, however the tensor is held.
struct RowPartition {
  std::int64_t count;      // rows
  std::int64_t block = 0;  // rows; 0: all of them are one, where nobody cares who has which
  std::int64_t unit = 1;   // rows
  int parts = threads();

  /// Rows to read at a time, of a tensor of which `usual` are read at once: whole blocks.
  std::int64_t run(std::int64_t usual) const {
    return std::min(count, block == 0 ? usual : std::max<std::int64_t>(1, usual / block) * block);
  }
  /// How many of those each part has room for.
  std::int64_t room(std::int64_t usual) const { return run(usual) / parts / unit * unit; }
  /// Calls `f(begin, end)` for part `index` of each block of rows [first, last), which are whole blocks but for the
  /// last.
  template <class F>
  void for_row_blocks(std::int64_t first, std::int64_t last, std::int64_t index, const F& f) const {
    const std::int64_t step = block == 0 ? last - first : block;
    for (std::int64_t from = first; from < last; from += step) {
      const Range own = part(std::min(step, last - from), index, parts, unit);
      if (own.begin < own.end) f(from + own.begin, from + own.end);
    }
  }
};

/// Rows of a saved tensor on the CPU, as a thread gets them.
struct RowBlock {
  std::int64_t begin, end;  // rows
  int part;                 // that owns them: a number below RowPartition::parts
  DType dtype;
  const std::byte* bytes;           // [end - begin, C] values
  const float* variance = nullptr;  // [end - begin, C] of their errors, or null: as Saved::rows has it

  template <class T>
  const T* values() const {
    expect(dtype_of<T>() == dtype, "saved rows of {} were read as {}", name_of(dtype), name_of(dtype_of<T>()));
    return reinterpret_cast<const T*>(bytes);
  }
};
using RowBlockKernel = std::function<void(const RowBlock&)>;

/// Where saved tensors come from: autograd implements it over slots. `row` numbers the op's table of saves.
class SavedTensors {
 public:
  virtual ~SavedTensors() = default;
  /// False for an optional input that was not given.
  virtual bool present(std::size_t /*row*/) const { return true; }
  virtual Tensor whole(std::size_t row) const = 0;
  /// `variance`: null, or what gets it as Saved::rows gives it.
  virtual Tensor rows(std::size_t row, std::int64_t begin, std::int64_t end, Tensor* variance) const = 0;
  virtual std::int64_t block_rows(std::size_t row) const = 0;
  /// Calls `f` on the thread that owns them for runs of rows that it has decoded. False, and nothing is done, where all
  /// threads had better read together. `with_variance`: `f` would use it, and whoever reads together asks for it.
  virtual bool read_apart(std::size_t, const RowPartition&, bool /*with_variance*/, const RowBlockKernel&) const {
    return false;
  }
  virtual Signs signs(std::size_t row) const = 0;
  virtual Shape shape(std::size_t row) const { return whole(row).shape(); }
};

namespace detail {
template <class Table>
consteval std::size_t find_row(const Table& table, Source from) {
  for (std::size_t i = 0; i < table.size(); ++i)
    if (table[i].from == from) return i;
  return table.size();
}
}  // namespace detail

/// What the backward of `Op` can see: the rows of `Op::saves`, and only those some wanted gradient needs.
template <class Op>
class Saved {
 public:
  explicit Saved(const SavedTensors& tensors) : tensors_(tensors) {}

  /// Whether the tensor is there: false for an optional input that was not given.
  template <Source from>
  bool has() const {
    return tensors_.present(row<from>());
  }
  /// The whole tensor, in the shape it had in forward. Computed on first use where the policy did not keep it.
  template <Source from>
  Tensor get() const {
    return tensors_.whole(row<from>());
  }
  /// Rows [begin, end) as [end - begin, C]: a view of a kept tensor; otherwise decoded or derived for this call.
  template <Source from>
  Tensor rows(std::int64_t begin, std::int64_t end) const {
    return tensors_.rows(row<from>(), begin, end, nullptr);
  }
  /// The same. Of values that come from codes of at most 3 bits `variance` gets that of each one's error, f32
  /// [end - begin, C], where it is the same about zero whatever the value (quant::tells_variance). It stays undefined
  /// where values are exact, derived, or approximate in another way. A curve f has the mean f + variance / 2 · f'' over
  /// such errors, to second order: an op that is one takes the difference off.
  template <Source from>
  Tensor rows(std::int64_t begin, std::int64_t end, Tensor& variance) const {
    return tensors_.rows(row<from>(), begin, end, &variance);
  }
  /// How many rows to ask for at a time: all of a tensor that lies there whole, a cache-sized run of any other.
  template <Source from>
  std::int64_t block_rows() const {
    return tensors_.block_rows(row<from>());
  }
  /// Calls `f(begin, end, rows [end - begin, C])`, or with the variance of `rows` besides, for such runs of the first
  /// `count` rows, in order.
  template <Source from, class F>
  void for_blocks_in_order(std::int64_t count, const F& f) const {
    const std::int64_t step = block_rows<from>();
    for (std::int64_t begin = 0; begin < count; begin += step) {
      const std::int64_t end = std::min(count, begin + step);
      if constexpr (std::is_invocable_v<F, std::int64_t, std::int64_t, Tensor, Tensor>) {
        Tensor variance;
        const Tensor values = rows<from>(begin, end, variance);
        f(begin, end, values, variance);
      } else {
        f(begin, end, rows<from>(begin, end));
      }
    }
  }
  /// Calls `f(RowBlock)` for runs of the first `count` rows in any order, and none on `meta`. Where they have to be
  /// decoded each thread calls it for rows of its own, while they lie in its cache; elsewhere one does, and `f` shares
  /// the work.
  template <Source from, class F>
  void for_each_row_block(std::int64_t count, const F& f) const {
    if (tensors_.read_apart(row<from>(), {.count = count}, true, f)) return;
    for_blocks_in_order<from>(count, [&](std::int64_t begin, std::int64_t end, const Tensor& values,
                                         const Tensor& variance) {
      launch(values.device(), [&] {
        f(RowBlock{begin, end, 0, values.dtype(), values.raw(), variance.defined() ? variance.data<float>() : nullptr});
      });
    });
  }
  /// Calls `f(RowBlock)` on each thread for runs of its parts of the blocks, in order: whole units but for the last of
  /// a part. None on `meta`.
  template <Source from, class F>
  void for_row_blocks(const RowPartition& share, const F& f) const {
    expect(share.block > 0, "parts of saved rows are those of blocks: RowPartition::block is {}", share.block);
    if (tensors_.read_apart(row<from>(), share, false, f)) return;
    const std::int64_t step = share.run(block_rows<from>());
    for (std::int64_t first = 0; first < share.count; first += step) {
      const std::int64_t last = std::min(share.count, first + step);
      const Tensor values = rows<from>(first, last);
      const std::int64_t row_bytes = values.shape().back() * size_of(values.dtype());
      launch(values.device(), [&] {
        parallel_tasks(share.parts, [&](std::int64_t index, int) {
          share.for_row_blocks(first, last, index, [&](std::int64_t begin, std::int64_t end) {
            f(RowBlock{begin, end, static_cast<int>(index), values.dtype(),
                       values.raw() + (begin - first) * row_bytes});
          });
        });
      });
    }
  }
  template <Source from>
  Signs signs() const {
    return tensors_.signs(row<from>());
  }
  /// The shape it had in forward; no value is touched.
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

/// What the derivation of some rows of `Op`'s output can see: the rows of `Op::rematerializes`.
template <class Op>
class RematInputs {
 public:
  RematInputs(std::span<const Tensor> tensors, std::span<const Tensor> variances, const Shape& shape,
              std::int64_t first_row, const Tensor& signs)
      : tensors_(tensors), variances_(variances), shape_(shape), first_row_(first_row), signs_(signs) {}

  /// Rows of the tensor that belong to the wanted rows of the output, [rows, C]; or all of it, as the table says.
  template <Source from>
  const Tensor& get() const {
    constexpr std::size_t found = detail::find_row(Op::rematerializes, from);
    static_assert(found < Op::rematerializes.size(),
                  "derive reads a tensor that the op's `derives` table does not list");
    return tensors_[found];
  }
  /// Of the errors of a tensor that the table has as `curve_of`, as Saved::rows gives it.
  template <Source from>
  Tensor variance() const {
    constexpr std::size_t found = detail::find_row(Op::rematerializes, from);
    static_assert(Op::rematerializes[found].with_variance, "derive asks for a variance that the op's table does not");
    return variances_.empty() ? Tensor() : variances_[found];
  }
  /// The whole output's shape, and which of its rows comes first here.
  const Shape& shape() const { return shape_; }
  std::int64_t first_row() const { return first_row_; }
  std::int64_t first_element() const { return first_row_ * shape_.back(); }
  /// The exact signs of the whole output, u8 [ceil(count / 8)] as quant::pack_signs makes them, where they were kept:
  /// the other tensors may be approximate. Undefined: they are exact, or nobody knows.
  const Tensor& signs() const { return signs_; }

 private:
  std::span<const Tensor> tensors_, variances_;
  const Shape& shape_;
  std::int64_t first_row_;
  const Tensor& signs_;
};

/// The gradients a backward pass has to yield.
class Grads {
 public:
  Grads(std::size_t inputs, InputSet wanted) : tensors_(inputs), wanted_(wanted) {}

  bool wanted(int input) const { return wanted_.contains(input); }
  InputSet wanted() const { return wanted_; }
  /// Gradient of an input. Undefined at first, but for inputs in `Op::accumulates_into`: there it may hold a gradient
  /// that came from elsewhere, and the op adds its own to it in place.
  Tensor& operator[](int input) { return tensors_[static_cast<std::size_t>(input)]; }
  std::size_t size() const { return tensors_.size(); }

 private:
  std::vector<Tensor> tensors_;
  InputSet wanted_;
};

/// An op with its type forgotten: what the tape, the policies and the tests work with.
class Operation {
 public:
  virtual ~Operation() = default;
  virtual std::string_view name() const = 0;
  virtual std::span<const Save> saves() const = 0;
  /// Empty: not cheap, never derived.
  virtual std::span<const Remat> rematerializes() const = 0;
  /// Inputs whose gradient the op can add to one that is there already.
  virtual InputSet accumulates_into() const = 0;
  /// Heads in the last extent of an attention op's tensors, 1 elsewhere.
  virtual std::int64_t heads() const = 0;
  /// Products that the definition of the forward pass sums up, whatever a kernel saves of them; 0 for passes over
  /// memory.
  virtual std::int64_t macs(std::span<const Shape> inputs, const Shape& y) const = 0;
  /// The inputs that hold the factors of these products: the gradients of all of them together take twice as many.
  virtual InputSet matmul_operands() const = 0;
  virtual Tensor forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const = 0;
  virtual void backward(Tensor dy, const SavedTensors& saved, Grads& grads) const = 0;
  /// Writes rows of the output into `out` [rows, C], allocating no tensor: threads do so at once, for rows of their
  /// own. `tensors` and their `variances`, if there are any, are laid out as `derives()`, `signs` as a RematInputs's.
  virtual void rematerialize(std::span<const Tensor> tensors, std::span<const Tensor> variances, const Shape& shape,
                             std::int64_t first_row, const Tensor& signs, const Tensor& out) const = 0;
};

/// Binds a concrete op struct to `Operation`. An op provides
///   static constexpr std::string_view name;
///   static constexpr std::array saves{Save{...}, ...};              (or std::array<Save, 0>{})
///   static constexpr std::array rematerializes{rows_of(...), ...};         optional
///   static constexpr InputSet accumulates_into{...};                            optional
///   static constexpr InputSet matmul_operands{...};                         of an op that multiplies matrices, with
///   std::int64_t macs(std::span<const Shape> inputs, const Shape& y) const;
///   Tensor forward(std::span<const Tensor> inputs[, std::vector<Tensor>& extra_outputs]) const;
///   void backward(Tensor dy, const Saved<Op>&, Grads&) const;
///   void rematerialize(const RematInputs<Op>&, const Tensor& out) const;    where `derives` is given
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
        counts == requires { Op::matmul_operands; }, "an op has both, `factors` and `macs`, or neither");
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
  void rematerialize(std::span<const Tensor> tensors, std::span<const Tensor> variances, const Shape& shape,
                     std::int64_t first_row, const Tensor& signs, const Tensor& out) const override {
    if constexpr (requires { Op::rematerializes; })
      op_.rematerialize(RematInputs<Op>(tensors, variances, shape, first_row, signs), out);
    else
      fail("{} cannot be derived", Op::name);
  }

 private:
  Op op_;
};

/// The ops that exist: what the op matrix in tests/ must hold a sample of.
std::vector<std::string_view>& op_names();

template <class Op>
struct RegisterOp {
  RegisterOp() { op_names().push_back(Op::name); }
};

}  // namespace lacuna
