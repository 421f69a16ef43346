// The memory layout of a quantized tensor: arithmetic on numbers, the same for every device.
#pragma once

#include "ops/quantize/group_params.h"
#include "ops/quantize/quantize.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>

namespace lacuna::quant {

inline constexpr std::int64_t block = 128;  // elements whose codes are packed together
/// Elements whose codes are packed in one call: whole blocks that stay in L1.
inline constexpr std::int64_t pack_chunk = 16 * block;

/// Bytes of one bit plane, `width` bits per element, of a block of `count` elements.
inline std::int64_t plane_bytes(std::int64_t count, int width) { return (count * width + 7) / 8; }
/// Bytes of a block of `count` elements: planes of 8, 4, 2 and 1 bit, as the binary digits of `bits` have them.
inline std::int64_t block_bytes(std::int64_t count, int bits) {
  std::int64_t bytes = 0;
  for (const int width : {8, 4, 2, 1})
    if ((bits & width) != 0) bytes += plane_bytes(count, width);
  return bytes;
}
/// Bytes of `count` elements in blocks; the last block may be shorter.
inline std::int64_t packed_bytes(std::int64_t count, int bits) {
  return count / block * block_bytes(block, bits) + block_bytes(count % block, bits);
}

/// Calls `f(begin, end)` for the parts of [begin, end) that lie in one block each.
template <class F>
[[gnu::always_inline]] inline void for_blocks(std::int64_t begin, std::int64_t end, const F& f) {
  for (std::int64_t next; begin < end; begin = next) {
    next = std::min(end, (begin / block + 1) * block);
    f(begin, next);
  }
}

/// Elements of a row of column groups: the product of the last `row_axes` extents.
inline std::int64_t row_elements(const Shape& shape, const Grouping& grouping) {
  std::int64_t elements = 1;
  for (int axis = std::max(shape.rank() - grouping.row_axes, 0); axis < shape.rank(); ++axis) elements *= shape[axis];
  return elements;
}

struct Layout {
  Layout(const Shape& shape, const QuantConfig& config, std::byte* bytes)
      : one_group(config.grouping.kind == Grouping::Kind::columns &&
                  config.grouping.size >= row_elements(shape, config.grouping)),
        kind(one_group ? Grouping::Kind::consecutive : config.grouping.kind),
        bits(config.bits),
        count(shape.count()),
        columns(row_elements(shape, config.grouping)),
        size(one_group ? std::max<std::int64_t>(count, 1) : config.grouping.size),
        bytes_per_block(block_bytes(block, bits)),
        codes(reinterpret_cast<std::uint8_t*>(bytes)),
        params(codes == nullptr ? nullptr : codes + packed_bytes(count, bits)) {}

  /// Packed codes of the block that holds `element`.
  std::uint8_t* block_at(std::int64_t element) const { return codes + element / block * bytes_per_block; }
  /// Codes of 8 bits are stored as they are.
  bool packs() const { return bits < 8; }
  /// End of the block that holds element `end` - 1.
  std::int64_t block_end_of(std::int64_t end) const { return std::min((end + block - 1) / block * block, count); }
  /// Consecutive groups: the smallest number of elements that is whole groups and whole blocks.
  std::int64_t unit() const { return std::lcm(size, block); }
  /// Consecutive groups: elements of one.
  std::int64_t length(std::int64_t group) const { return std::min(size, count - group * size); }
  /// Parameters of a group: GroupParams, or another struct of as many bytes.
  template <class Params = GroupParams>
  Params group(std::int64_t index) const {
    static_assert(sizeof(Params) == group_params_bytes);
    Params group;
    std::memcpy(&group, params + index * group_params_bytes, sizeof group);
    return group;
  }
  template <class Params>
  void set_group(std::int64_t index, const Params& group) const {
    static_assert(sizeof(Params) == group_params_bytes);
    std::memcpy(params + index * group_params_bytes, &group, sizeof group);
  }
  /// Calls `f(group, first, last)` for the pieces of [begin, end) that belong to one group each.
  template <class F>
  void for_pieces(std::int64_t begin, std::int64_t end, F&& f) const {
    const std::int64_t row = kind == Grouping::Kind::consecutive ? count : columns;
    std::int64_t group = begin % row / size, left = std::min((group + 1) * size, row) - begin % row;
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t last = std::min(end, i + left);
      f(group, i, last);
      i = last;
      group = (group + 1) * size < row ? group + 1 : 0;
      left = std::min(size, row - group * size);
    }
  }

  bool one_group;  // one column group as wide as a row: the same as one consecutive group of everything
  Grouping::Kind kind;
  int bits;
  std::int64_t count, columns, size;  // elements of the tensor, of a row, of a group
  std::int64_t bytes_per_block;       // packed
  std::uint8_t* codes;                // [packed_bytes(count, bits)]
  std::uint8_t* params;               // [groups, 4], unaligned
};

}  // namespace lacuna::quant
