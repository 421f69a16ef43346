// Which elements of a saved tensor share a range when it is quantized.
#pragma once

#include "autograd/plan/bit_allocation.h"
#include "autograd/policy.h"

namespace lacuna {

/// Runs of `size` elements; one token, or equal parts of one, if the op hints that tokens have different ranges.
quant::Grouping run_groups(const SavedTensorInfo& info, std::int64_t size);
/// The configuration of `bits` with the least error, in run_groups of `size`. Where it applies a Hadamard transform, a
/// group is four times as long: after it a longer group has no wider range.
quant::QuantConfig run_config(const SavedTensorInfo& info, int bits, std::int64_t size);
/// The bytes of that for any number of bits; no sensitivity.
BitChoice bit_choice(const SavedTensorInfo& info, std::int64_t size);
/// Whether the tensor is [samples, heads, positions, width].
bool lies_by_heads(const SavedTensorInfo& info);
/// One head of all samples, if the tensor lies by heads; otherwise columns within one head; runs of `size` if the
/// columns are too narrow.
quant::Grouping column_groups(const SavedTensorInfo& info, std::int64_t size);

}  // namespace lacuna
