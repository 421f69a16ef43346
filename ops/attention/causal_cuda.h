// Arguments of the kernels in ops/attention/causal.cu. Pointers lead into the device's memory.
#pragma once

#include "core/random.h"
#include "ops/attention/attention_cuda.h"
#include "ops/cuda/sequences.h"

namespace lacuna::cuda {

struct CausalProblem {
  std::int64_t heads, kv_heads, head_dim;
  SequenceRows keys, queries;           // of these sequences; offsets count from their first row
  std::int64_t longest;                 // queries of a sequence, the most
  std::int64_t query_tiles, key_tiles;  // that hold any sequence's rows, padding included
  float scale, soft_cap;                // soft_cap 0: none
  std::int64_t window, ahead;           // window 0: none
  const float* slopes;                  // [heads]; null: none
  bool rounds_alibi;
  TokenRows q, k, v;
  std::int64_t first;           // of these sequences in the batch
  std::uint32_t dropped_below;  // draws below it drop a probability
  float kept_scale;             // 1 / (1 - dropout)
  RandomStream stream;
  std::int64_t positions;
};

struct CausalGradientRows {
  TokenRows dy, dq, dk, dv;
  float* statistics;  // [2, sequences · heads, longest]
};

/// y: the queries' rows. `type`: of q, k, v and y.
void causal_forward(Stream stream, DType type, const CausalProblem& a, const TokenRows& y);
void causal_backward(Stream stream, DType type, const CausalProblem& a, const CausalGradientRows& to);

}  // namespace lacuna::cuda
