// Launchers of ops/losses/top_k.cu.
#pragma once

#include "core/number.h"
#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

/// places[r] = where the largest of a row is, the first of equals.
struct FindLargest {
  const void* values;    // [rows, columns] of `type`
  std::int64_t* places;  // [rows]
  std::int64_t rows, columns;
};
void find_largest(Stream stream, DType type, const FindLargest& what);

/// counts[i] += rows whose target is among the k[i] largest logits (ops/losses/top_k.h).
struct CountTopK {
  static constexpr int most = 8;
  const void* logits;           // [rows, columns] of `type`
  const std::int64_t* targets;  // [rows]
  std::int64_t* larger;         // [rows], workspace: logits that are larger than the target's
  double* counts;               // [ks]
  std::int64_t rows, columns;
  std::int64_t k[most];
  int ks;
};
void count_top_k(Stream stream, DType type, const CountTopK& what);

}  // namespace lacuna::cuda
