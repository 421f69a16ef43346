// Tensors quantized to 1 to 8 bits per element, by groups. docs/quantization.md describes the format and its error.
#pragma once

#include "core/tensor.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace lacuna::quant {

enum class Rounding : std::uint8_t {
  nearest,
  stochastic,  // up with a probability equal to the fraction: unbiased, variance step² · f · (1 - f)
  dithered,  // stochastic, and the draw is subtracted again when dequantizing: unbiased, variance step² / 12 whatever
             // the value (subtractive dither, Schuchman 1964)
  hadamard,  // a randomized Hadamard transform of the group, then Max's (1960) uniform quantizer for normal values,
             // scaled to be unbiased (DRIVE and EDEN, Vargaftik et al. 2021, 2022): hadamard_quantize.h
};

inline constexpr std::int64_t max_hadamard_group = 1024;

/// Which elements share a step and an origin. `consecutive`: `size` consecutive elements; the last group may be
/// shorter. `columns`: columns [k · size, (k + 1) · size) of all rows; the last group may be narrower.
struct Grouping {
  enum class Kind : std::uint8_t { consecutive, columns };
  Kind kind = Kind::consecutive;
  std::int64_t size = 256;  // 1 or more; with Rounding::hadamard at most max_hadamard_group
  int row_axes = 1;         // of `columns`: how many of the last axes make up a row
  bool operator==(const Grouping&) const = default;
};

struct QuantConfig {
  int bits = 8;  // per element: 1 to 8; with Rounding::hadamard 1 to 3
  Grouping grouping{};
  Rounding rounding = Rounding::stochastic;
  bool operator==(const QuantConfig&) const = default;
};

/// Minimum and maximum of a group.
struct Range {
  float min = 0, max = 0;
};

struct QuantizedTensor {
  QuantConfig config;
  Shape shape;  // of the original
  DType dtype = DType::f32;
  Tensor bytes;           // u8 [quantized_bytes]: packed codes, 4 bytes per group, quantized channel means (hadamard)
  std::uint64_t key = 0;  // seeds the draws; dithered and hadamard tensors need it to dequantize
};

std::int64_t group_count(const Shape& shape, const Grouping& grouping);
/// Bytes of `elements` packed codes.
std::int64_t code_bytes(std::int64_t elements, int bits);
/// Bytes of a quantized tensor: codes, group parameters and channel means.
std::int64_t quantized_bytes(const Shape& shape, const QuantConfig& config);
/// quantized_bytes without the codes.
std::int64_t range_bytes(const Shape& shape, const QuantConfig& config);

/// Whether Rounding::hadamard has a smaller error than Rounding::dithered at this width: for 1 to 3 bits.
bool uses_hadamard(int bits);
/// Variance of the error of min_error_config relative to the variance of normally distributed values. Dithered: for
/// groups of 256 values, which span 5.7 standard deviations on average.
double relative_error(int bits);
/// The unbiased rounding with the smallest error: hadamard if `uses_hadamard` and groups are consecutive, else
/// dithered.
QuantConfig min_error_config(int bits, const Grouping& grouping);

/// Quantizes x, of any floating type and shape. Draws depend on `key` and the element's index alone; callers hash seed,
/// step and tensor into the key.
///
/// Affine roundings: an element dequantizes to within half a step of its value, one step with `stochastic`. A step is
/// range / (2^bits - 1), rounded up by at most 1.4 % (1.6 % at 1 bit), as long as the group's minimum is within 128
/// ranges of zero. Hadamard bounds the error of the whole group: on average relative_error(bits) times its variance
/// about its mean or its channels' means, as long as the group's mean, stored as bf16, is within 64 standard deviations
/// of zero. A group with a NaN or an infinity dequantizes to NaN entirely.
///
/// The bytes are allocated on x's device with the purpose of the current AllocationScope. Throws Error if bits, group
/// size or type are out of range.
QuantizedTensor quantize(const Tensor& x, const QuantConfig& config, std::uint64_t key);
/// The same with known ranges [groups], finite: one pass for column groups instead of two. Values outside saturate.
/// `seen` [groups], or empty, receives the actual ranges of the finite values; groups without any keep their entry.
QuantizedTensor quantize(const Tensor& x, const QuantConfig& config, std::uint64_t key, std::span<const Range> ranges,
                         std::span<Range> seen);

/// Dequantizes elements [begin, end) in memory order into `out`: end - begin elements of the original type, on the
/// same device. Uses all threads.
void dequantize(const QuantizedTensor& quantized, std::int64_t begin, std::int64_t end, const Tensor& out);

/// On the CPU: dequantizes elements [begin, end) into `out` on the calling thread. `slot`, below the number of slots,
/// selects the caller's scratch: no two threads use one slot at once. Hadamard groups are transformed whole even if the
/// range holds a part of them.
using BlockDequantizer = std::function<void(std::int64_t begin, std::int64_t end, std::byte* out, std::int64_t slot)>;
/// Prepares a dequantizer that is called for many blocks of at most `max_elements`. Tables and scratch are allocated
/// here (Purpose::workspace, on `meta` too) and live as long as the result; calls allocate nothing and check nothing.
BlockDequantizer block_dequantizer(const QuantizedTensor& quantized, std::int64_t max_elements, std::int64_t slots);

}  // namespace lacuna::quant
