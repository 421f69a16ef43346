// Which elements of a saved tensor share a range when it is coded.
#pragma once

#include "autograd/plan/bit_allocation.h"
#include "autograd/policy.h"

namespace lacuna {

/// Runs of `size` elements; tokens, or equal parts of them, where the op hints that their scales differ.
quant::Grouping run_groups(const SavedTensorInfo& facts, std::int64_t size);
/// QuantizedTensor of `bits` in run_groups of `size`, those that err least: what is rotated, in four of them at once
/// where that is possible. A turned group has no extremes that more of it would move apart.
quant::QuantConfig run_config(const SavedTensorInfo& facts, int bits, std::int64_t size);
/// What they take, without a sensitivity.
BitChoice bit_choice(const SavedTensorInfo& facts, std::int64_t size);
/// Whether the tensor is [samples, heads, positions, width].
bool lies_by_heads(const SavedTensorInfo& facts);
/// A head each, of all samples, where the tensor lies by heads; groups of columns that do not cross a head elsewhere;
/// runs of `size` where the columns are too narrow for it.
quant::Grouping column_groups(const SavedTensorInfo& facts, std::int64_t size);

}  // namespace lacuna
