// Launchers of ops/shapes/embedding.cu.
#pragma once

#include "core/number.h"
#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

/// y[i] = table[ids[i]] + base[i]. An id outside of the table makes the row NaN.
struct LookUp {
  const void* table;        // [entries, width] of `table_type`
  const std::int64_t* ids;  // [rows]
  const void* base;         // [rows, width] of `type`; may be null
  void* y;                  // [rows, width] of `type`
  std::int64_t entries, rows, width;
};
void look_up(Stream stream, DType table_type, DType type, const LookUp& what);

/// Rows whose sums for the entries of a small table are added first.
inline constexpr std::int64_t rows_of_part = 64;

/// table[ids[i]] += dy[i] for all i whose id is not `padding`, each entry's terms in order; with `partial` those of
/// rows_of_part rows first, then these sums.
struct AddToTable {
  const void* dy;           // [rows, width] of `type`
  const std::int64_t* ids;  // [rows]
  void* table;              // [entries, width] of `table_type`
  float* partial;           // [parts, entries, width]; may be null
  std::int64_t entries, rows, width, padding;
};
void add_to_table(Stream stream, DType table_type, DType type, const AddToTable& what);

}  // namespace lacuna::cuda
