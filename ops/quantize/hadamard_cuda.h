// Launchers of ops/quantize/hadamard_quantize.cu and hadamard_dequantize.cu.
#pragma once

#include "core/number.h"
#include "core/stream.h"
#include "ops/cuda/divisor.h"

#include <cstdint>

namespace lacuna::cuda {

/// Channel means that values are centred by. The default: none.
struct ChannelMeans {
  const float* values = nullptr;  // [samples, columns] from `first_sample` on
  std::int64_t columns = 1, first_sample = 0;
  Divisor by_columns{1}, by_sample{1};  // elements of a row, of a sample

  /// The mean of the element's channel.
  LACUNA_DEVICE float of(std::int64_t element) const {
    return values[(by_sample.quotient(element) - first_sample) * columns + by_columns.remainder(element)];
  }
};

/// A tensor in codes after a Hadamard transform of each group.
struct HadamardCodes {
  std::uint8_t* codes;       // [packed_bytes(count, bits)] (ops/quantize/layout.h)
  std::uint8_t* params;      // [groups, 4]
  std::int64_t count, size;  // elements of the tensor, of a group: up to 1024
  std::uint64_t key;
  int bits;
  double max_step;  // MaxQuantizer
  ChannelMeans means;
};

/// Estimates the means of x [samples, positions, columns] into means [samples, columns].
struct EstimateMeans {
  const void* x;
  float* means;
  std::int64_t samples, positions, columns;
};
void estimate_means(Stream stream, DType type, const EstimateMeans& what);

/// `unpacked`: [count], for groups that share packed blocks; null where they are whole blocks.
void quantize_hadamard(Stream stream, DType type, const void* x, const HadamardCodes& to, std::uint8_t* unpacked);
/// Elements [begin, end) into `out`.
void dequantize_hadamard(Stream stream, DType type, const HadamardCodes& from, std::int64_t begin, std::int64_t end,
                         void* out);

}  // namespace lacuna::cuda
