// Tensors quantized to 1 to 8 bits per element, by groups. docs/quantization.md describes the format and its error.
#pragma once

#include "core/random.h"
#include "core/tensor.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

namespace lacuna::quant {

/// Elements of the longest group that every quantizer takes.
inline constexpr std::int64_t longest_group = 1024;

/// Which elements share a step and an origin. `consecutive`: `size` consecutive elements; the last group may be
/// shorter. `columns`: columns [k · size, (k + 1) · size) of all rows; the last group may be narrower.
struct Grouping {
  enum class Kind : std::uint8_t { consecutive, columns };
  Kind kind = Kind::consecutive;
  std::int64_t size = 256;  // 1 or more
  int row_axes = 1;         // of `columns`: how many of the last axes make up a row
  bool operator==(const Grouping&) const = default;
};

struct QuantConfig {
  int bits = 8;  // per element: 1 to 8
  Grouping grouping{};
  std::string_view quantizer = "stochastic";  // a name in quantizers() (quantizer.h), which outlives the configuration
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
  Tensor bytes;           // u8 [quantized_bytes]: packed codes, 4 bytes per group, and what else the quantizer keeps
  std::uint64_t key = 0;  // seeds the draws; some quantizers need it to dequantize, too
  Tensor drawn{};         // i64 []: the mixed key where a kernel drew it (draw_key); then `key` is not read
};

std::int64_t group_count(const Shape& shape, const Grouping& grouping);
/// Bytes of `elements` packed codes.
std::int64_t code_bytes(std::int64_t elements, int bits);
/// Bytes of a quantized tensor.
std::int64_t quantized_bytes(const Shape& shape, const QuantConfig& config);
/// quantized_bytes without the codes.
std::int64_t range_bytes(const Shape& shape, const QuantConfig& config);

/// Variance of the error of min_error_config in consecutive groups, relative to the variance of normally distributed
/// values.
double relative_error(int bits);
/// The unbiased quantizer with the smallest error.
QuantConfig min_error_config(int bits, const Grouping& grouping);
/// The quantizer with the smallest error of those that draw no random numbers.
QuantConfig drawless_config(int bits, const Grouping& grouping);

/// Quantizes x, of any floating type and shape. Draws depend on `key` and the element's index alone; callers hash seed,
/// step and tensor into the key. A group with a NaN or an infinity dequantizes to NaN entirely.
///
/// The bytes are allocated on x's device with the purpose of the current AllocationScope. Throws Error if the quantizer
/// does not take the configuration or the type.
QuantizedTensor quantize(const Tensor& x, const QuantConfig& config, std::uint64_t key);
/// The same with a key that a kernel draws on a cuda device, from block `number` of the stream: the host need not know
/// the step, so that it can be captured. Quantizers that draw on the host throw.
QuantizedTensor quantize(const Tensor& x, const QuantConfig& config, const RandomStream& stream, std::uint64_t number);
/// The same with known ranges [groups], finite: one pass for column groups instead of two. Values outside saturate.
/// `seen` [groups], or empty, receives the actual ranges of the finite values; groups without any keep their entry.
/// Affine quantizers take ranges, others throw.
QuantizedTensor quantize(const Tensor& x, const QuantConfig& config, std::uint64_t key, std::span<const Range> ranges,
                         std::span<Range> seen);

/// Dequantizes elements [begin, end) in memory order into `out`: end - begin elements of the original type, on the
/// same device. Uses all threads.
void dequantize(const QuantizedTensor& quantized, std::int64_t begin, std::int64_t end, const Tensor& out);

/// On the CPU: dequantizes elements [begin, end) into `out` on the calling thread. `slot`, below the number of slots,
/// selects the caller's scratch: no two threads use one slot at once.
using BlockDequantizer = std::function<void(std::int64_t begin, std::int64_t end, std::byte* out, std::int64_t slot)>;
/// Prepares a dequantizer that is called for many blocks of at most `max_elements`. Tables and scratch are allocated
/// here (Purpose::workspace, on `meta` too) and live as long as the result; calls allocate nothing and check nothing.
BlockDequantizer block_dequantizer(const QuantizedTensor& quantized, std::int64_t max_elements, std::int64_t slots);

}  // namespace lacuna::quant
