#include "ops/quantize/affine.h"

#include "ops/quantize/affine_dequantize.h"
#include "ops/quantize/affine_quantize.h"
#include "ops/quantize/quantize_kernels.h"

namespace lacuna::quant {

double AffineQuantizer::relative_error(int bits) const {
  // A group of 256 normal values spans 5.7 standard deviations on average: 5.7² / 12 = 2.72.
  const double levels = static_cast<double>((1 << bits) - 1);
  return (rounding_ == Rounding::stochastic ? 2 : 1) * (2.72 / (levels * levels));
}

void AffineQuantizer::encode(const Tensor& x, const QuantizedTensor& quantized, const KnownRanges* known) const {
  encode_affine(x.device(), x, quantized, known);
}

void AffineQuantizer::decode(const QuantizedTensor& quantized, std::int64_t begin, std::int64_t end,
                             const Tensor& out) const {
  decode_affine(out.device(), quantized, begin, end, out);
}

BlockDequantizer AffineQuantizer::block_dequantizer(const QuantizedTensor& quantized, std::int64_t,
                                                    std::int64_t) const {
  return affine_block_dequantizer(quantized);
}

const AffineQuantizer* affine_quantizer_of(const QuantConfig& config) {
  return dynamic_cast<const AffineQuantizer*>(&quantizer_of(config));
}

Rounding rounding_of(const QuantConfig& config) {
  const AffineQuantizer* const affine = affine_quantizer_of(config);
  expect(affine != nullptr, "expected an affine quantizer, got {}", config.quantizer);
  return affine->rounding();
}

namespace {

const RegisterQuantizer<AffineQuantizer> nearest("nearest", Rounding::nearest),
    stochastic("stochastic", Rounding::stochastic), dithered("dithered", Rounding::dithered);

const RegisterKernel cpu_encode{encode_affine, {DeviceKind::cpu, DeviceKind::meta}, quantize_affine};
const RegisterKernel cpu_decode{decode_affine, {DeviceKind::cpu, DeviceKind::meta}, dequantize_affine};

}  // namespace
}  // namespace lacuna::quant
