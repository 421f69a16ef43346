#include "autograd/policies/grouping.h"

#include <algorithm>

namespace lacuna {
namespace {

constexpr std::int64_t longest_group = quant::max_hadamard_group;

/// The number of a token's channels that share a range, if the op hints that tokens' scales differ; 0 otherwise.
std::int64_t token_group(const SavedTensorInfo& info) {
  constexpr std::int64_t shortest = 16;
  const std::int64_t channels = info.shape.back(), parts = (channels + longest_group - 1) / longest_group;
  return info.groups == Groups::token && channels >= shortest && channels % parts == 0 ? channels / parts : 0;
}

}  // namespace

quant::Grouping run_groups(const SavedTensorInfo& info, std::int64_t size) {
  const std::int64_t own = token_group(info);
  return {.kind = quant::Grouping::Kind::consecutive, .size = own > 0 ? own : size};
}

quant::QuantConfig run_config(const SavedTensorInfo& info, int bits, std::int64_t size) {
  constexpr std::int64_t together = 4;
  if (quant::uses_hadamard(bits)) size = std::min(together * size, longest_group);
  return quant::min_error_config(bits, run_groups(info, size));
}

BitChoice bit_choice(const SavedTensorInfo& info, std::int64_t size) {
  return {.elements = info.shape.count(),
          .range_bytes = quant::range_bytes(info.shape, run_config(info, 8, size)),
          .hadamard_bytes = quant::range_bytes(info.shape, run_config(info, 1, size))};
}

bool lies_by_heads(const SavedTensorInfo& info) { return info.groups == Groups::head && info.shape.rank() == 4; }

quant::Grouping column_groups(const SavedTensorInfo& info, std::int64_t size) {
  if (lies_by_heads(info))
    return {.kind = quant::Grouping::Kind::columns, .size = info.shape[2] * info.shape[3], .row_axes = 3};
  // The group width is the largest power of two that divides a head's width (a packed projection has three per head).
  const std::int64_t width = info.shape.back() / (info.shape.back() % info.heads == 0 ? info.heads : 1);
  const std::int64_t columns = std::min<std::int64_t>(width & -width, 64);
  constexpr std::int64_t narrowest = 8;
  if (columns < narrowest) return run_groups(info, size);
  return {.kind = quant::Grouping::Kind::columns, .size = columns};
}

}  // namespace lacuna
