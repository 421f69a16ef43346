#include "ops/quantize/affine_cuda.h"

#include "core/backend.h"
#include "ops/quantize/affine.h"
#include "ops/quantize/layout.h"
#include "ops/quantize/mixed_key.h"
#include "ops/quantize/quantize_kernels.h"

#include <algorithm>
#include <cstring>

namespace lacuna::quant {
namespace {

cuda::AffineCodes codes_of(const QuantizedTensor& quantized) {
  const Layout layout(quantized.shape, quantized.config, quantized.bytes.raw());
  const std::int64_t row = layout.kind == Grouping::Kind::consecutive ? layout.count : layout.columns,
                     size = std::min(layout.size, row);
  return {.codes = layout.codes,
          .params = layout.params,
          .count = layout.count,
          .row = row,
          .size = size,
          .groups = (row + size - 1) / size,
          .key = mixed_key_of(quantized),
          .bits = layout.bits,
          .draws = rounding_of(quantized.config) != Rounding::nearest,
          .dithered = rounding_of(quantized.config) == Rounding::dithered};
}

Tensor on_device(std::span<const Range> ranges, Device device) {
  static_assert(sizeof(Range) == 2 * sizeof(float));
  const auto count = static_cast<std::int64_t>(ranges.size());
  return Tensor::from(std::span<const float>(&ranges.data()->min, 2 * ranges.size()), {count, 2}, DType::f32, device);
}
/// Waits for the device.
void copy_out(const Tensor& ranges, std::span<Range> to) {
  const Tensor here = ranges.to(Device::cpu);
  std::memcpy(to.data(), here.raw(), to.size_bytes());
}

void quantize_affine_on_cuda(const Tensor& x, const QuantizedTensor& quantized, const KnownRanges* known) {
  const cuda::AffineCodes to = codes_of(quantized);
  const Stream stream = stream_of(x.device());
  if (known == nullptr && cuda::quantizes_in_one_pass(to))
    return cuda::quantize_in_one_pass(stream, x.dtype(), x.raw(), to);
  const auto scratch = [&](std::size_t bytes) {
    return Tensor::empty({to.groups * static_cast<std::int64_t>(bytes)}, DType::u8, x.device(), Purpose::workspace);
  };
  const Tensor observed = scratch(sizeof(cuda::ObservedKeys)), lines = scratch(sizeof(cuda::EncodingLine));
  const Tensor ranges = known == nullptr ? Tensor() : on_device(known->ranges, x.device());
  const Tensor seen = known == nullptr || known->seen.empty() ? Tensor() : on_device(known->seen, x.device());
  cuda::quantize_in_two_passes(stream, x.dtype(),
                               {.x = x.raw(),
                                .to = to,
                                .observed = reinterpret_cast<cuda::ObservedKeys*>(observed.raw()),
                                .lines = reinterpret_cast<cuda::EncodingLine*>(lines.raw()),
                                .known = ranges.defined() ? ranges.data<float>() : nullptr,
                                .seen = seen.defined() ? seen.data<float>() : nullptr,
                                .encodes_not_finite = quantized.config.grouping.kind == Grouping::Kind::columns});
  if (seen.defined()) copy_out(seen, known->seen);
}

void dequantize_affine_on_cuda(const QuantizedTensor& quantized, const Tensor& signs, std::int64_t begin,
                               std::int64_t end, const Tensor& out) {
  cuda::dequantize_affine(stream_of(out.device()), out.dtype(), codes_of(quantized),
                          signs.defined() ? signs.data<const std::uint8_t>() : nullptr, begin, end, out.raw());
}

const RegisterKernel cuda_encode{encode_affine, DeviceKind::cuda, quantize_affine_on_cuda};
const RegisterKernel cuda_decode{decode_affine, DeviceKind::cuda,
                                 [](const QuantizedTensor& quantized, std::int64_t begin, std::int64_t end,
                                    const Tensor& out) { dequantize_affine_on_cuda(quantized, {}, begin, end, out); }};
const RegisterKernel cuda_decode_rectified{decode_affine_rectified, DeviceKind::cuda, dequantize_affine_on_cuda};

}  // namespace
}  // namespace lacuna::quant
