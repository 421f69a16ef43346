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

/// table[ids[i]] += dy[i] for all i whose id is not `padding`, each entry's terms in order; with `partial` those of
/// rows_of_part rows first, then these sums.
struct AddToTable {
  const void* dy;           // [rows, width] of `type`
  const std::int64_t* ids;  // [rows]
  void* table;              // [entries, width] of `table_type`
  float* partial;           // [parts, entries, width]; or null:
  std::uint32_t* found;     // [2, entries], zeros
  std::int64_t entries, rows, rows_of_part, width, padding;
};
void add_to_table(Stream stream, DType table_type, DType type, const AddToTable& what);

}  // namespace lacuna::cuda
