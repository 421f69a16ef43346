// Launchers of ops/losses/span_cross_entropy.cu.
#pragma once

#include "core/number.h"
#include "core/stream.h"
#include "ops/cuda/sequences.h"

#include <cstdint>

namespace lacuna::cuda {

/// Column c of sequence n counts if positions[n, c] is one of its tokens. The loss is the mean over columns of the mean
/// over sequences that count.
struct SpanLosses {
  SequenceRows sequences;
  const void* logits;             // [T, columns] of `type`
  const std::int64_t* positions;  // [sequences, columns]
  std::int64_t columns;
  float* losses;  // [sequences, columns]
  float* loss;    // [1]
};
void span_losses(Stream stream, DType type, const SpanLosses& what);

struct SpanGradients {
  SequenceRows sequences;
  const void* logits;
  const std::int64_t* positions;
  std::int64_t columns;
  const float* dy;  // [1]
  void* dz;         // as logits
};
void span_gradients(Stream stream, DType type, const SpanGradients& what);

}  // namespace lacuna::cuda
