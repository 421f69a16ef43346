// Launchers of optim/clip.cu.
#pragma once

#include "core/number.h"
#include "core/stream.h"
#include "optim/chunks.h"

#include <cstdint>

namespace lacuna::cuda {

/// The entry of a tensor.
struct MeasuredTensor {
  const void* x;  // [count] of `type`
  DType type;
  std::int64_t count, first_chunk;
  std::int64_t index;
};
/// squares[index] = Σ x² of each tensor, in f64: by chunks, which are added in order. *finite becomes 0 if one is not
/// finite.
struct SumsOfSquares {
  Table<MeasuredTensor> tensors;
  double* partial;       // [chunks], workspace
  double* squares;       // [indices]
  std::int32_t* finite;  // []; may be null
};
void sums_of_squares(Stream stream, const SumsOfSquares& what);

/// *factor = min(1, max_norm / (norm + 1e-6)) / scale, of the norm √Σ squares / scale.
struct ClipGradients {
  const double* squares;  // [count]
  std::int64_t count;
  double max_norm;
  const float* scale;  // []; null: 1
  float* factor;       // []
};
void clip_gradients(Stream stream, const ClipGradients& what);

/// *total += weight · *times · loss. *finite becomes 0 if the total is not finite.
struct AddLoss {
  const void* loss;  // [], f32 or f64
  bool is_double;
  double weight;
  const double* times;   // []; null: 1
  double* total;         // []
  std::int32_t* finite;  // []
};
void add_loss(Stream stream, const AddLoss& what);

/// *finite becomes 0 if a value is not finite. values: [count].
void look_for_nonfinite(Stream stream, const double* values, std::int64_t count, std::int32_t* finite);

}  // namespace lacuna::cuda
