// Arguments of the kernels in ops/attention/attention.cu. Pointers lead into the device's memory.
#pragma once

#include "core/number.h"
#include "core/random.h"
#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

/// Tokens: row r of a sample starts at data + (first_row(sample) + r) · stride elements.
struct TokenRows {
  void* data = nullptr;  // null: nobody wants it
  std::int64_t stride = 0, rows_per_sample = 0;
  const std::int64_t* offsets = nullptr;  // [samples + 1], of the samples' rows; null: all have as many

  LACUNA_HOST_DEVICE std::int64_t first_row(std::int64_t sample) const {
    return offsets == nullptr ? sample * rows_per_sample : offsets[sample] - offsets[0];
  }
  /// Rows of a sample, padding included; `usual` without offsets.
  LACUNA_HOST_DEVICE std::int64_t rows_of(std::int64_t sample, std::int64_t usual) const {
    return offsets == nullptr ? usual : offsets[sample + 1] - offsets[sample];
  }
};

/// Tiles of 64 rows that hold `rows`.
constexpr std::int64_t tiles_of(std::int64_t rows) { return (rows + 63) / 64; }

struct AttentionProblem {
  std::int64_t samples, heads, head_dim;
  std::int64_t queries, keys;           // the most of a sample
  std::int64_t query_tiles, key_tiles;  // that hold any sample's rows, padding included
  float scale;
  TokenRows q, k, v;
  const void* bias = nullptr;  // [W, heads or 1, queries or 1, keys] of q's type
  std::int64_t bias_windows = 1, bias_window = 0, bias_head = 0, bias_row = 0;  // W; elements from one to the next
  const std::int64_t* key_lengths = nullptr;                                    // [samples]
  std::int64_t first = 0;                                                       // of these samples in the batch
  std::uint32_t dropped_below = 0;                                              // draws below it drop a probability
  float kept_scale = 1;                                                         // 1 / (1 - dropout)
  RandomStream stream{};
  std::int64_t draw_rows = 0, draw_columns = 0;
};

struct AttentionGradientRows {
  TokenRows dy, dq, dk, dv;
  std::int64_t dq_rows;        // the most of a sample
  float* bias_sums = nullptr;  // [W, heads or 1, queries or 1, keys], added to
  float* statistics;           // [2, samples · heads, queries]
};

/// y: the queries' rows. `type`: of q, k, v, bias and y.
void attention_forward(Stream stream, DType type, const AttentionProblem& a, const TokenRows& y);
void attention_backward(Stream stream, DType type, const AttentionProblem& a, const AttentionGradientRows& to);
/// to [elements] of `type` = the sum of `count` parts [elements], in order.
void attention_sum_bias(Stream stream, DType type, const float* parts, std::int64_t count, std::int64_t elements,
                        void* to);

}  // namespace lacuna::cuda
