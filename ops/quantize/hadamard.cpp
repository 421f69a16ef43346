// The quantizer `hadamard`: see hadamard_quantize.h.
#include "ops/quantize/hadamard_quantize.h"
#include "ops/quantize/quantize_kernels.h"
#include "ops/quantize/quantizer.h"

#include <algorithm>

namespace lacuna::quant {
namespace {

/// The error of the whole group is bounded: on average relative_error(bits) times its variance about its mean or its
/// channels' means, as long as the group's mean, stored as bf16, is within 64 standard deviations of zero.
class Hadamard final : public Quantizer {
 public:
  // With more bits, the range of normal values costs no more than what lies beyond the last level.
  bool takes(const QuantConfig& config) const override {
    return config.bits <= max_hadamard_bits && config.grouping.kind == Grouping::Kind::consecutive &&
           config.grouping.size <= longest_group;
  }
  bool is_unbiased() const override { return true; }
  bool draws() const override { return true; }
  double relative_error(int bits) const override {
    const double distortion = max_quantizers[static_cast<std::size_t>(bits)].distortion;
    return distortion / (1 - distortion);  // after scaling to zero bias
  }
  /// Groups four times as long: after the transform a longer group has no wider range.
  std::int64_t group_size(std::int64_t size) const override { return std::min(4 * size, longest_group); }
  double seconds_per_byte() const override { return 1.5e-10; }
  bool decodes_whole_groups() const override { return true; }
  std::int64_t more_bytes(const Shape& shape) const override {
    const Shape means = means_shape(shape);
    return means.count() == 0 ? 0 : quantized_bytes(means, min_error_config(8, {}));
  }

  void encode(const Tensor& x, const QuantizedTensor& quantized, const KnownRanges* known) const override {
    expect(known == nullptr, "quantize: Hadamard groups have no ranges, got those of {}", x.shape());
    encode_hadamard(x.device(), x, quantized);
  }
  void decode(const QuantizedTensor& quantized, std::int64_t begin, std::int64_t end,
              const Tensor& out) const override {
    decode_hadamard(out.device(), quantized, begin, end, out);
  }
  BlockDequantizer block_dequantizer(const QuantizedTensor& quantized, std::int64_t max_elements,
                                     std::int64_t slots) const override {
    return hadamard_block_dequantizer(quantized, max_elements, slots);
  }
};

const RegisterQuantizer<Hadamard> hadamard("hadamard");

const RegisterKernel cpu_encode{encode_hadamard, {DeviceKind::cpu, DeviceKind::meta}, quantize_hadamard};
const RegisterKernel cpu_decode{decode_hadamard, {DeviceKind::cpu, DeviceKind::meta}, dequantize_hadamard};

}  // namespace
}  // namespace lacuna::quant
