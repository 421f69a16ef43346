// Bins of sequences, for batches without padding or waste.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lacuna {

/// Best fit decreasing (Ding et al. 2024, "Fewer truncations improve language modeling"; trl's `bfd`): the longest
/// sequences first, each in the bin with the least room that holds it. Returns the sequences of each bin, in order; of
/// equal bins the one that has had its room longest is filled. No length may be above `size`.
std::vector<std::vector<std::int32_t>> best_fit_bins(std::span<const std::int64_t> lengths, std::int64_t size);

}  // namespace lacuna
