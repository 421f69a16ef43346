// Formats of weights in few bits: codes of all elements, row-major, and behind them the scales of blocks of elements.
// Free of host-only headers, so that kernels in .cu files can include it.
#pragma once

#include "core/number.h"

#include <cstdint>

namespace lacuna {

/// How one element is written.
enum class WeightCode : std::uint8_t {
  bf16,  // 16 bits, no scale
  int8,  // code · scale / 127, code in [-127, 127]
  nf4,   // value of the code · scale: QLoRA (Dettmers et al. 2023), appendix E
  fp4,   // the same with bitsandbytes' 4-bit floating-point values; only read from files
  int4,  // code · scale / 7, code in [-7, 7]
};

struct WeightFormat {
  WeightCode code = WeightCode::bf16;
  /// Type that decoded values are rounded to before use: f32 (none), bf16 or f16. bitsandbytes rounds to the type of
  /// the model that it quantized.
  DType rounding = DType::f32;
  /// Elements that share a scale, their largest magnitude. Blocks run through rows. 0: no scales.
  std::int64_t block = 0;
  /// Scales that share a scale of their own (QLoRA's double quantization): each is 8 bits of a fixed map, times that
  /// scale, plus an offset. 0: scales are f32.
  std::int64_t nested_block = 0;
  constexpr bool operator==(const WeightFormat&) const = default;

  constexpr bool in_4_bits() const { return code >= WeightCode::nf4; }
};

/// QLoRA's: blocks of 64, double quantization in blocks of 256. The same for `int4`.
constexpr WeightFormat format_in_4_bits(WeightCode code) { return {.code = code, .block = 64, .nested_block = 256}; }
/// LLM.int8()'s (Dettmers et al. 2022): a scale for each row of `row` elements.
constexpr WeightFormat format_in_8_bits(std::int64_t row) { return {.code = WeightCode::int8, .block = row}; }

/// Places of the parts of a coded tensor of `count` elements, in bytes. There are no gaps, whose bytes would make equal
/// tensors differ; floats may be unaligned.
struct WeightLayout {
  std::int64_t blocks = 0, nested_blocks = 0;
  std::int64_t scales = 0;         // u8 [blocks] if nested, else f32 [blocks]
  std::int64_t nested_scales = 0;  // f32 [nested_blocks]
  std::int64_t offset = 0;         // f32
  std::int64_t bytes = 0;
};
constexpr WeightLayout layout_of(const WeightFormat& format, std::int64_t count) {
  WeightLayout layout;
  if (format.block == 0) {
    layout.bytes = 2 * count;
    return layout;
  }
  layout.blocks = (count + format.block - 1) / format.block;
  layout.scales = format.in_4_bits() ? (count + 1) / 2 : count;
  layout.bytes = layout.scales + 4 * layout.blocks;
  if (format.nested_block == 0) return layout;
  layout.nested_blocks = (layout.blocks + format.nested_block - 1) / format.nested_block;
  layout.nested_scales = layout.scales + layout.blocks;
  layout.offset = layout.nested_scales + 4 * layout.nested_blocks;
  layout.bytes = layout.offset + 4;
  return layout;
}

}  // namespace lacuna
