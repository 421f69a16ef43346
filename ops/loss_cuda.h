// Launchers of ops/loss.cu. Logits [rows, classes] of `type`; the target of a row is a label or probabilities
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
};

/// A label outside of the classes makes the loss NaN.
struct CrossEntropyForward {
  const void* logits;
  Targets targets;
  float *log_sums, *losses;  // [rows]
  float* loss;               // [1]: the mean
  std::int64_t rows, classes;
};
void cross_entropy_forward(Stream stream, DType type, const CrossEntropyForward& what);

struct CrossEntropyBackward {
  const void* logits;
  Targets targets;
  const float* log_sums;  // [rows]
  const float* dy;        // [1]
  void* dz;               // as logits
  std::int64_t rows, classes;
};
void cross_entropy_backward(Stream stream, DType type, const CrossEntropyBackward& what);

}  // namespace lacuna::cuda
