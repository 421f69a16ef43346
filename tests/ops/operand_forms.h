// Saved tensors in forms that tests choose.
#pragma once

#include "core/parallel.h"
#include "ops/row_blocks.h"

#include <memory>
#include <utility>
#include <vector>

namespace lacuna {

/// While it lives, so little is decoded at a time that small tensors take many blocks on several threads.
class SmallRowBlocks {
 public:
  explicit SmallRowBlocks(std::int64_t bytes)
      : before_(std::exchange(row_block_sizes(),
                              {.cache = bytes, .thread_cache = bytes / 4, .serial_below = 0, .cuda_cache = bytes})) {}
  ~SmallRowBlocks() { row_block_sizes() = before_; }
  SmallRowBlocks(const SmallRowBlocks&) = delete;
  SmallRowBlocks& operator=(const SmallRowBlocks&) = delete;

 private:
  RowBlockSizes before_;
};

/// Its output is its input. Notes which rows are rematerialized.
struct Copied {
  std::vector<Range>* ranges = nullptr;
  static constexpr std::string_view name = "copied";
  static constexpr std::array<Save, 0> saves{};
  static constexpr std::array rematerializes{rows_of(input(0))};
  Tensor forward(std::span<const Tensor> inputs) const { return inputs[0].clone(); }
  void backward(const Tensor& dy, const Saved<Copied>&, Grads& grads) const { grads[0] = dy; }
  void rematerialize(const RematInputs<Copied>& from, const Tensor& out) const {
    if (ranges != nullptr) ranges->push_back({from.first_row(), from.first_row() + out.rows()});
    out.copy_from(from.get<input(0)>());
  }
};

/// `values`, rematerialized by a copy whenever rows of it are read.
inline Operand copied_operand(const Tensor& values, std::vector<Range>* ranges = nullptr) {
  RematerializedForm form{std::make_shared<Bound<Copied>>(Copied{ranges}), {}, values.shape()};
  form.sources.emplace_back(values);
  return Operand(std::move(form), values.shape(), values.dtype(), values.device(), {}, {});
}

/// `values` in 8 bits.
inline Operand quantized_operand(const Tensor& values) {
  return Operand(QuantizedForm{quant::quantize(values, {.bits = 8, .grouping = {.size = 32}}, 7)}, values.shape(),
                 values.dtype(), values.device(), {}, {});
}

}  // namespace lacuna
