// Launchers of core/coded/codec.cu.
#pragma once

#include "core/coded/format.h"
#include "core/stream.h"

#include <array>

namespace lacuna::cuda {

/// A coded matrix [rows, width] on the device.
struct CodedMatrix {
  const std::uint8_t* bytes;
  WeightFormat format;
  WeightLayout layout;
  std::array<float, 16> values;       // of 4-bit codes
  std::array<float, 256> nested_map;  // of codes of scales
  std::int64_t rows, width;
};

/// Rows to decode: `ids` [rows], or from `first_row` on; a row outside of the matrix becomes NaN. Columns
/// [first_column, first_column + columns).
struct DecodedRows {
  const std::int64_t* ids;  // null: rows in a row
  std::int64_t first_row, rows, first_column, columns;
  void* to;  // [rows, columns] of `type`
};
void decode(Stream stream, DType type, const CodedMatrix& matrix, const DecodedRows& what);

}  // namespace lacuna::cuda
