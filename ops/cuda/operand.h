// Operands as kernels on cuda take them.
#pragma once

#include "core/backend.h"
#include "ops/cuda/saved_values.h"
#include "ops/operand.h"

namespace lacuna::cuda {

/// The values of a kept tensor.
inline SavedValues saved_values(const Tensor& kept) { return {.values = kept.data<const std::byte>()}; }

/// The codes of an operand that a kernel can decode as it reads: affine, in groups of a multiple of 8 consecutive
/// elements, without signs. Otherwise nothing.
std::optional<SavedValues> saved_codes(const Operand& operand);

/// Elements of an operand in codes (RematInputs::codes) from `begin` on, as many as `like` has.
CodedRange coded_range(const Operand& codes, std::int64_t begin, const Tensor& like);

template <class F>
void for_decoded_values(const Operand& operand, std::int64_t count, const F& f) {
  operand.for_blocks(
      count, [&](std::int64_t begin, std::int64_t end, const Tensor& values) { f(begin, end, saved_values(values)); });
}

/// For elementwise kernels. Calls `f(begin, end, SavedValues)` for blocks of the first `count` rows of an operand, in
/// order: all of them at once if it is kept, or quantized and readable as codes; otherwise decoded or rematerialized
/// rows.
template <class F>
void for_saved_values(const Operand& operand, std::int64_t count, const F& f) {
  if (const std::optional<SavedValues> codes = saved_codes(operand); codes.has_value() && count > 0)
    return f(std::int64_t{0}, count, *codes);
  for_decoded_values(operand, count, f);
}

/// The same for kernels that read eight elements of a row at a time.
template <class F>
void for_saved_rows(const Operand& operand, std::int64_t count, const F& f) {
  if (operand.shape().back() % 8 == 0) return for_saved_values(operand, count, f);
  for_decoded_values(operand, count, f);
}

}  // namespace lacuna::cuda
