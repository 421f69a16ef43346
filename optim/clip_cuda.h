// Launchers of optim/clip.cu.
#pragma once

#include "core/number.h"
#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

/// Elements whose squares a block sums.
inline constexpr std::int64_t square_part = 16384;
inline std::int64_t square_parts(std::int64_t count) { return (count + square_part - 1) / square_part; }

/// *square = Σ x², in f64. *finite becomes 0 if that is not finite.
struct SumOfSquares {
  const void* x;  // [count] of `type`
  std::int64_t count;
  double* partial;       // [square_parts(count)], workspace
  double* square;        // []
  std::int32_t* finite;  // []; may be null
};
void sum_of_squares(Stream stream, DType type, const SumOfSquares& what);

/// *factor = min(1, max_norm / (norm + 1e-6)), of the norm √Σ squares.
struct ClipGradients {
  const double* squares;  // [count]
  std::int64_t count;
  double max_norm;
  float* factor;  // []
};
void clip_gradients(Stream stream, const ClipGradients& what);

/// *total += weight · loss. *finite becomes 0 if the total is not finite.
struct AddLoss {
  const void* loss;  // [], f32 or f64
  bool is_double;
  double weight;
  double* total;         // []
  std::int32_t* finite;  // []
};
void add_loss(Stream stream, const AddLoss& what);

}  // namespace lacuna::cuda
