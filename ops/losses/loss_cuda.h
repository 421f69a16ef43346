// Launchers of ops/losses/loss.cu. Logits [rows, classes] of `type`; the target of a row is a label or probabilities
// [classes].
#pragma once

#include "core/number.h"
#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

struct Targets {
  const std::int64_t* labels;  // [rows]; null: probabilities
  const float* probabilities;  // [rows, classes]
  double label_smoothing;
  bool ignores = false;
  std::int64_t ignored = 0;  // a row with this label counts nothing, if `ignores`
};

/// The loss of each row. A label outside of the classes makes it NaN.
struct RowLosses {
  const void* logits;
  Targets targets;
  float* log_sums;  // [rows]: log Σ e^z; may be null
  float* losses;    // [rows]
  std::int64_t rows, classes;
};
void row_losses(Stream stream, DType type, const RowLosses& what);

/// dz = *scale / divisor · (softmax(z) - target).
struct RowGradients {
  const void* logits;
  Targets targets;
  const float* log_sums;  // [rows]; null: computed again
  const float* scale;     // [1]
  float divisor;
  void* dz;  // as logits, may be them
  std::int64_t rows, classes;
  float inverse_cap = 0;  // not 0: logits went through a soft cap, and dz is the gradient before it
};
void row_gradients(Stream stream, DType type, const RowGradients& what);

}  // namespace lacuna::cuda
