#include "autograd/policies/grouping.h"

#include "ops/quantize/quantizer.h"

namespace lacuna {
namespace {

/// The number of a token's channels that share a range, if the op hints that tokens' scales differ; 0 otherwise.
std::int64_t token_group(const SavedTensorInfo& info) {
  constexpr std::int64_t shortest = 16;
  const std::int64_t channels = info.shape.back(), parts = (channels + quant::longest_group - 1) / quant::longest_group;
  return info.groups == Groups::token && channels >= shortest && channels % parts == 0 ? channels / parts : 0;
}

}  // namespace

quant::Grouping run_groups(const SavedTensorInfo& info, std::int64_t size) {
  const std::int64_t own = token_group(info);
  return {.kind = quant::Grouping::Kind::consecutive, .size = own > 0 ? own : size};
}

quant::QuantConfig run_config(const SavedTensorInfo& info, int bits, std::int64_t size) {
  return quant::min_error_config(bits, run_groups(info, quant::min_error_quantizer(bits).group_size(size)));
}

BitChoice bit_choice(const SavedTensorInfo& info, std::int64_t size) {
  BitChoice choice{.elements = info.shape.count()};
  for (int bits = 1; bits <= 8; ++bits)
    choice.range_bytes.at(static_cast<std::size_t>(bits)) =
        quant::range_bytes(info.shape, run_config(info, bits, size));
  return choice;
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
