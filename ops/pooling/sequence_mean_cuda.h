// Launchers of ops/pooling/sequence_mean.cu.
#pragma once

#include "core/number.h"
#include "core/stream.h"
#include "ops/cuda/sequences.h"

#include <cstdint>

namespace lacuna::cuda {

/// means[i] is the mean of sequence i's tokens; backward spreads a gradient of it, and sets rows of padding to 0.
struct SequenceMeans {
  SequenceRows sequences;
  void* rows;   // [T, width] of `type`
  void* means;  // [sequences, width] of `type`
  std::int64_t width;
};
void sequence_means(Stream stream, DType type, const SequenceMeans& what);
void spread_over_sequences(Stream stream, DType type, const SequenceMeans& what);

}  // namespace lacuna::cuda
