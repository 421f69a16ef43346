// Launchers of ops/arithmetic/reduce.cu.
#pragma once

#include "core/number.h"
#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

/// partial[k] = Σ of elements [k · run, (k + 1) · run) of x.
struct SumRuns {
  const void* x;            // [count] of `type`
  double* partial;          // [ceil(count / run)]
  std::int64_t count, run;  // run: a multiple of 8
};
void sum_runs(Stream stream, DType type, const SumRuns& what);

/// y = factor · Σ of the input, in f64. The bits depend on `count` only.
struct SumInOrder {
  const float* in_f32 = nullptr;   // [count], or null:
  const double* in_f64 = nullptr;  // [count]
  std::int64_t count = 0;
  void* y = nullptr;  // [1] of `type`
  double factor = 1;
};
void sum_in_order(Stream stream, DType type, const SumInOrder& what);

/// sums[i] += factor · *times · x[i].
struct AddToSums {
  const void* x;  // [count] of `type`, or of f64
  double* sums;   // [count]
  std::int64_t count;
  double factor;
  const double* times;  // []; null: 1
};
void add_to_sums(Stream stream, DType type, const AddToSums& what);

/// to[i] = factor · *from. Both of `type`.
struct Spread {
  const void* from;  // [1]
  void* to;          // [count]
  std::int64_t count;
  double factor;
};
void spread(Stream stream, DType type, const Spread& what);

/// Sums over the rows of a matrix, added to `to`. `partial`, for `blocks` above 1: [blocks, columns] of f32.
struct ColumnSums {
  const void* x;  // [rows, columns] of `type`
  float* partial;
  float* to;  // [columns]
  std::int64_t rows, columns, blocks;
};
void add_column_sums(Stream stream, DType type, const ColumnSums& what);
/// How many blocks share the rows: a rule of the shape.
std::int64_t column_sum_blocks(std::int64_t rows, std::int64_t columns);

}  // namespace lacuna::cuda
