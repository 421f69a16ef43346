// Quantizers whose codes are evenly spaced between the least and the largest value of a group.
#pragma once

#include "ops/quantize/quantizer.h"

#include <cstdint>

namespace lacuna::quant {

enum class Rounding : std::uint8_t {
  nearest,
  stochastic,  // up with a probability equal to the fraction: unbiased, variance step² · f · (1 - f)
  dithered,  // stochastic, and the draw is subtracted again when dequantizing: unbiased, variance step² / 12 whatever
             // the value (subtractive dither, Schuchman 1964)
};

/// An element dequantizes to within half a step of its value, one step with `stochastic`. A step is
/// range / (2^bits - 1), rounded up by at most 1.4 % (1.6 % at 1 bit), as long as the group's minimum is within 128
/// ranges of zero.
class AffineQuantizer final : public Quantizer {
 public:
  explicit AffineQuantizer(Rounding rounding) : rounding_(rounding) {}
  Rounding rounding() const { return rounding_; }

  bool takes(const QuantConfig&) const override { return true; }
  bool is_unbiased() const override { return draws(); }
  bool draws() const override { return rounding_ != Rounding::nearest; }
  bool draws_in_kernels() const override { return true; }
  double relative_error(int bits) const override;
  double seconds_per_byte() const override { return 6.5e-11; }
  void encode(const Tensor& x, const QuantizedTensor& quantized, const KnownRanges* known) const override;
  void decode(const QuantizedTensor& quantized, std::int64_t begin, std::int64_t end, const Tensor& out) const override;
  BlockDequantizer block_dequantizer(const QuantizedTensor& quantized, std::int64_t max_elements,
                                     std::int64_t slots) const override;

 private:
  Rounding rounding_;
};

/// Null if the configuration's quantizer is another.
const AffineQuantizer* affine_quantizer_of(const QuantConfig& config);
Rounding rounding_of(const QuantConfig& config);

}  // namespace lacuna::quant
