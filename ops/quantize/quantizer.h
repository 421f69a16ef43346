// How values become codes. Each quantizer registers itself in its own file.
#pragma once

#include "core/registry.h"
#include "ops/quantize/quantize.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace lacuna::quant {

/// Ranges known before, and where the observed ranges go: both [groups]; `seen` may be empty.
struct KnownRanges {
  std::span<const Range> ranges;
  std::span<Range> seen;
};

class Quantizer {
 public:
  Quantizer() = default;
  virtual ~Quantizer() = default;
  Quantizer(const Quantizer&) = delete;
  Quantizer& operator=(const Quantizer&) = delete;

  /// Whether it can encode so. Bits are 1 to 8, and group sizes 1 or more.
  virtual bool takes(const QuantConfig& config) const = 0;
  /// Whether a decoded value is the encoded one on average over keys.
  virtual bool is_unbiased() const = 0;
  /// Whether codes depend on the key.
  virtual bool draws() const = 0;
  /// Whether its kernels on cuda read the key from the device (QuantizedTensor::drawn).
  virtual bool draws_in_kernels() const { return false; }
  /// Variance of the error relative to the variance of normally distributed values.
  virtual double relative_error(int bits) const = 0;
  /// The group size with the least error, given that affine quantizers take `size`; at most longest_group.
  virtual std::int64_t group_size(std::int64_t size) const { return size; }
  /// Nominal seconds per byte of a tensor that is encoded once and decoded about twice, on two cores with AVX-512.
  virtual double seconds_per_byte() const = 0;
  /// Whether a part of a group takes as long to decode as the whole group.
  virtual bool decodes_whole_groups() const { return false; }
  /// Bytes of an encoded tensor behind the codes and group parameters (layout.h).
  virtual std::int64_t more_bytes(const Shape&) const { return 0; }

  /// Writes `quantized.bytes` from x, which is not empty. `known`: null if the ranges are to be observed first.
  virtual void encode(const Tensor& x, const QuantizedTensor& quantized, const KnownRanges* known) const = 0;
  /// dequantize() of elements [begin, end), not none.
  virtual void decode(const QuantizedTensor& quantized, std::int64_t begin, std::int64_t end,
                      const Tensor& out) const = 0;
  virtual BlockDequantizer block_dequantizer(const QuantizedTensor& quantized, std::int64_t max_elements,
                                             std::int64_t slots) const = 0;
};

Registry<std::unique_ptr<const Quantizer>>& quantizers();
const Quantizer& quantizer_of(const QuantConfig& config);
/// The unbiased quantizer with the smallest error.
const Quantizer& min_error_quantizer(int bits, Grouping::Kind kind = Grouping::Kind::consecutive);

/// Registers a class under a name with the arguments of its constructor.
template <class Concrete>
struct RegisterQuantizer {
  template <class... Args>
  explicit RegisterQuantizer(std::string_view name, Args... args) {
    quantizers().add(name, std::make_unique<const Concrete>(args...));
  }
};

}  // namespace lacuna::quant
