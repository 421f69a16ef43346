// Where codes and what is kept of their groups lie in memory.
#pragma once

#include "ops/quantize/affine.h"
#include "ops/quantize/fitting.h"
#include "ops/quantize/planes.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>

namespace lacuna::quant {

inline constexpr std::int64_t serial_below = 16384;  // elements: what one thread codes by itself
/// Elements whose codes are packed together: whole blocks that stay in the first cache.
inline constexpr std::int64_t codes_together = 16 * block;

/// Calls `f(begin, end)` for the parts of [begin, end) that lie in one block each.
template <class F>
[[gnu::always_inline]] inline void for_blocks(std::int64_t begin, std::int64_t end, const F& f) {
  for (std::int64_t next; begin < end; begin = next) {
    next = std::min(end, (begin / block + 1) * block);
    f(begin, next);
  }
}

/// Of a row, after which column groups begin anew.
inline std::int64_t row_elements(const Shape& shape, const Grouping& grouping) {
  std::int64_t elements = 1;
  for (int axis = std::max(shape.rank() - grouping.extents, 0); axis < shape.rank(); ++axis) elements *= shape[axis];
  return elements;
}

/// Where the parts of a coded tensor lie.
struct Layout {
  Layout(const Shape& shape, const QuantConfig& coding, std::byte* bytes)
      : one_group(coding.grouping.kind == Grouping::Kind::column &&
                  coding.grouping.size >= row_elements(shape, coding.grouping)),
        kind(one_group ? Grouping::Kind::run : coding.grouping.kind),
        bits(coding.bits),
        count(shape.count()),
        columns(row_elements(shape, coding.grouping)),
        size(one_group ? std::max<std::int64_t>(count, 1) : coding.grouping.size),
        block_bytes(packed_bytes(block, bits)),
        codes(reinterpret_cast<std::uint8_t*>(bytes)),
        stored(codes + packed_row_bytes(count, bits)) {}

  std::uint8_t* block_at(std::int64_t element) const { return codes + element / block * block_bytes; }
  /// QuantizedTensor of 8 bits lie as they are.
  bool packs() const { return bits < 8; }
  /// Where the block ends that holds the element before `end`.
  std::int64_t block_end_of(std::int64_t end) const { return std::min((end + block - 1) / block * block, count); }
  /// Of groups that are runs, how many elements can be coded apart from others: whole groups and whole blocks.
  std::int64_t unit() const { return std::lcm(size, block); }
  /// Of groups that are runs: elements.
  std::int64_t length(std::int64_t group) const { return std::min(size, count - group * size); }
  /// What is kept of a group: `Stored`, or as many bytes that mean something else.
  template <class Kept = Stored>
  Kept group(std::int64_t index) const {
    static_assert(sizeof(Kept) == stored_bytes);
    Kept group;
    std::memcpy(&group, stored + index * stored_bytes, sizeof group);
    return group;
  }
  template <class Kept>
  void set_group(std::int64_t index, const Kept& group) const {
    static_assert(sizeof(Kept) == stored_bytes);
    std::memcpy(stored + index * stored_bytes, &group, sizeof group);
  }
  /// Calls `f(group, first, last)` for the pieces of [begin, end) that belong to one group each.
  template <class F>
  void for_pieces(std::int64_t begin, std::int64_t end, F&& f) const {
    const std::int64_t row = kind == Grouping::Kind::run ? count : columns;  // after which groups begin anew
    std::int64_t group = begin % row / size, left = std::min((group + 1) * size, row) - begin % row;
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t last = std::min(end, i + left);
      f(group, i, last);
      i = last;
      group = (group + 1) * size < row ? group + 1 : 0;
      left = std::min(size, row - group * size);
    }
  }

  bool one_group;  // of all columns: a run of everything
  Grouping::Kind kind;
  int bits;
  std::int64_t count, columns, size;  // elements, of a row, of a group
  std::int64_t block_bytes;           // of a block's codes
  std::uint8_t* codes;                // [code_bytes]
  std::uint8_t* stored;               // [groups, 4], at any address
};

}  // namespace lacuna::quant
