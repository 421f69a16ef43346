// Groups: the elements of a saved tensor that share a range when it is quantized.
#pragma once

#include "autograd/plan/bit_allocation.h"
#include "autograd/policy.h"

namespace lacuna {

/// Groups of `size` consecutive elements, or of one token or equal parts of it if the op hints that tokens have
/// different ranges.
quant::Grouping run_groups(const SavedTensorInfo& info, std::int64_t size);
/// The configuration with the least error for `bits`, in run_groups of `size`, or as many times that as the quantizer
/// does best with.
quant::QuantConfig run_config(const SavedTensorInfo& info, int bits, std::int64_t size);
/// The bytes of run_config for any number of bits. The sensitivity is not set.
BitChoice bit_choice(const SavedTensorInfo& info, std::int64_t size);
/// Whether the tensor's shape is [samples, heads, positions, width].
bool lies_by_heads(const SavedTensorInfo& info);
/// Groups of one head over all samples if the tensor lies by heads, otherwise of columns within one head, or run_groups
/// of `size` if the columns are too narrow.
quant::Grouping column_groups(const SavedTensorInfo& info, std::int64_t size);

}  // namespace lacuna
