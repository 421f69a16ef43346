// Launchers of ops/quantize/affine_quantize.cu and affine_dequantize.cu.
#pragma once

#include "core/number.h"
#include "core/stream.h"
#include "ops/cuda/saved_values.h"

#include <cstdint>

namespace lacuna::cuda {

/// A tensor in affine codes. Columns [k · size, (k + 1) · size) of all rows are a group; consecutive groups are those
/// of one row.
struct AffineCodes {
  std::uint8_t* codes;      // [packed_bytes(count, bits)] (ops/quantize/layout.h), at any address
  std::uint8_t* params;     // [groups, 4]
  std::int64_t count, row;  // elements of the tensor, of a row
  std::int64_t size;        // columns of a group
  std::int64_t groups;
  MixedKey key;
  int bits;
  bool draws;     // when it quantizes: stochastic or dithered
  bool dithered;  // when it dequantizes
};

/// Whether one kernel observes and encodes: consecutive groups that some thousand elements hold whole.
bool quantizes_in_one_pass(const AffineCodes& codes);
void quantize_in_one_pass(Stream stream, DType type, const void* x, const AffineCodes& to);

/// Minimum and maximum of a group, of all values and of the finite ones, as integers in the order of the values.
struct ObservedKeys {
  std::int32_t min, max, finite_min, finite_max;
};
/// The line from values times `scale` to codes in units of 2^-16 steps.
struct EncodingLine {
  float origin, factor, scale;
};

/// Any groups.
struct QuantizeInTwoPasses {
  const void* x;
  AffineCodes to;
  ObservedKeys* observed;        // [groups]
  EncodingLine* lines;           // [groups]
  const float* known = nullptr;  // [groups, 2]: least and largest values; null: those observed
  float* seen = nullptr;         // [groups, 2]: those of finite values; groups without any keep their entries
  bool encodes_not_finite;       // by the known range, groups with values that are not finite; their parameters say so
};
void quantize_in_two_passes(Stream stream, DType type, const QuantizeInTwoPasses& what);

/// Elements [begin, end) into `out`. `signs`: bits of all elements; those whose bit is not set become 0 unless they are
/// NaN; null: as decoded.
void dequantize_affine(Stream stream, DType type, const AffineCodes& from, const std::uint8_t* signs,
                       std::int64_t begin, std::int64_t end, void* out);

}  // namespace lacuna::cuda
