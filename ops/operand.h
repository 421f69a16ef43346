// A saved tensor as the backward of an op reads it.
#pragma once

#include "core/op.h"
#include "ops/quantize/quantize.h"
#include "ops/quantize/slope.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

namespace lacuna {

// The forms of an operand.

/// The tensor itself, in the operand's shape.
struct KeptForm {
  Tensor values;
};
/// 1 to 8 bits an element.
struct QuantizedForm {
  quant::QuantizedTensor values;
  /// Bits of the exact signs (quant::pack_signs) of a tensor without negative elements: elements whose bit is not set
  /// are zero. Undefined: as decoded.
  Tensor signs{};
  /// Calibration: what is decoded is quantized once more like this, and decoded again.
  std::optional<quant::QuantConfig> coarser{};
};
/// 2 bits an element: places at which the curve that reads the tensor has about the slope that it has at the value.
struct SlopeForm {
  Tensor bytes;
  const quant::SlopeLevels* levels;
};
/// Whether each element is positive, a bit an element (quant::pack_signs).
struct SignForm {
  Tensor bits;
};
/// Computed again by the op that made it.
struct RematerializedForm {
  std::shared_ptr<const Operation> op;
  std::vector<Operand> sources;  // as op->rematerializes(); undefined if an optional input is absent
  Shape shape;                   // of the op's output; the operand's shape may be a view of it
  Tensor signs{};                // exact ones of the output, as RematInputs::signs
};

/// One saved tensor: its shape and type, and the form in which it is held. A kernel reads the form itself and decodes
/// while it loads, or asks for decoded rows here. The CPU's kernels that decode on several threads use
/// ops/row_blocks.h.
class Operand {
 public:
  using Form = std::variant<std::monostate, KeptForm, QuantizedForm, SlopeForm, SignForm, RematerializedForm>;

  /// Undefined: an absent optional input, or signs that were not kept.
  Operand() = default;
  explicit Operand(Tensor kept);
  /// `op` and `path`: the op that made the tensor and its module, for which the ledger counts decoded copies.
  Operand(Form form, const Shape& shape, DType dtype, Device device, Label op, Label path);

  bool defined() const { return !std::holds_alternative<std::monostate>(form_); }
  /// As the reading op knew the tensor in forward.
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  const Form& form() const { return form_; }
  /// The form of that type, or null.
  template <class T>
  const T* as() const {
    return std::get_if<T>(&form_);
  }
  Label op() const { return op_; }
  Label path() const { return path_; }

  /// The whole tensor: the kept one, or a decoded or rematerialized copy that belongs to the caller.
  Tensor whole() const;
  /// Rows [begin, end) as [end - begin, C]: a view of a kept tensor; otherwise decoded or rematerialized, with all
  /// threads, into a workspace that belongs to the caller.
  Tensor rows(std::int64_t begin, std::int64_t end) const;
  /// Rows to ask `rows` for at a time: all of a kept tensor, otherwise as many as stay in cache once decoded.
  std::int64_t block_rows() const;
  /// Calls `f(begin, end, rows(begin, end))` for blocks of the first `count` rows, in order.
  template <class F>
  void for_blocks(std::int64_t count, const F& f) const {
    const std::int64_t step = block_rows();
    for (std::int64_t begin = 0; begin < count; begin += step) {
      const std::int64_t end = std::min(count, begin + step);
      f(begin, end, rows(begin, end));
    }
  }

 private:
  Form form_{};
  Shape shape_{};
  DType dtype_ = DType::f32;
  Device device_ = Device::cpu;
  Label op_{}, path_{};
};

/// How many elements of an operand have a group of codes that kernels can read as they lie: affine ones in groups of a
/// multiple of 8 consecutive elements, or in one group, without signs. 0: it has no such codes.
std::int64_t elements_of_code_group(const Operand& operand);

/// A saved tensor as it was in forward; undefined if it was not saved (When) or is not kept like that.
template <Source from, class Op>
Tensor kept_or_none(const Saved<Op>& saved) {
  if (!saved.template has<from>()) return {};
  const Operand operand = saved.template get<from>();
  return operand.template as<KeptForm>() != nullptr ? operand.whole() : Tensor();
}

}  // namespace lacuna
