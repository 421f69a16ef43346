#include "core/backend.h"
#include "ops/quantize/affine_cuda.h"
#include "ops/quantize/hadamard_cuda.h"
#include "ops/quantize/hadamard_quantize.h"
#include "ops/quantize/hadamard_shape.h"
#include "ops/quantize/layout.h"
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
          .key = quantized.key,
          .bits = layout.bits,
          .draws = quantized.config.rounding != Rounding::nearest,
          .dithered = quantized.config.rounding == Rounding::dithered};
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

void dequantize_affine_on_cuda(const QuantizedTensor& quantized, std::int64_t begin, std::int64_t end,
                               const Tensor& out) {
  cuda::dequantize_affine(stream_of(out.device()), out.dtype(), codes_of(quantized), begin, end, out.raw());
}

/// `means`: f32 [samples, C] from `first_sample` on; undefined if values are not centred by channel.
cuda::HadamardCodes hadamard_codes_of(const QuantizedTensor& quantized, const Tensor& means,
                                      std::int64_t first_sample) {
  const Layout layout(quantized.shape, quantized.config, quantized.bytes.raw());
  cuda::HadamardCodes codes{.codes = layout.codes,
                            .params = layout.params,
                            .count = layout.count,
                            .size = layout.size,
                            .key = quantized.key,
                            .bits = layout.bits,
                            .max_step = max_quantizers[static_cast<std::size_t>(layout.bits)].step,
                            .means = {}};
  if (means.defined())
    codes.means = {.values = means.data<float>(),
                   .columns = quantized.shape.back(),
                   .sample = layout.count / quantized.shape.front(),
                   .first_sample = first_sample};
  return codes;
}

/// Estimates and stores the channel means of x; returns them as they dequantize, f32 [samples, C].
Tensor quantized_means(const Tensor& x, const QuantizedTensor& quantized) {
  const QuantizedTensor stored = stored_means(quantized);
  if (stored.shape.count() == 0) return {};
  Tensor means = Tensor::empty(stored.shape, DType::f32, x.device(), Purpose::workspace);
  cuda::estimate_means(stream_of(x.device()), x.dtype(),
                       {.x = x.raw(),
                        .means = means.data<float>(),
                        .samples = stored.shape.front(),
                        .positions = x.count() / means.count(),
                        .columns = stored.shape.back()});
  quantize_affine_on_cuda(means, stored, nullptr);
  dequantize_affine_on_cuda(stored, 0, means.count(), means);
  return means;
}

void quantize_hadamard_on_cuda(const Tensor& x, const QuantizedTensor& quantized) {
  const Tensor means = quantized_means(x, quantized);
  const cuda::HadamardCodes to = hadamard_codes_of(quantized, means, 0);
  const bool whole_blocks = to.size % block == 0 || to.count <= to.size;
  const Tensor unpacked =
      whole_blocks ? Tensor() : Tensor::empty({to.count}, DType::u8, x.device(), Purpose::workspace);
  cuda::quantize_hadamard(stream_of(x.device()), x.dtype(), x.raw(), to,
                          whole_blocks ? nullptr : unpacked.data<std::uint8_t>());
}

void dequantize_hadamard_on_cuda(const QuantizedTensor& quantized, std::int64_t begin, std::int64_t end,
                                 const Tensor& out) {
  const QuantizedTensor stored = stored_means(quantized);
  Tensor means;  // of the samples that the range's groups belong to
  std::int64_t first_sample = 0;
  if (stored.shape.count() > 0) {
    const lacuna::Range samples = samples_of(quantized, begin, end);
    const std::int64_t columns = stored.shape.back();
    first_sample = samples.begin;
    means = Tensor::empty({samples.end - samples.begin, columns}, DType::f32, out.device(), Purpose::workspace);
    dequantize_affine_on_cuda(stored, samples.begin * columns, samples.end * columns, means);
  }
  cuda::dequantize_hadamard(stream_of(out.device()), out.dtype(), hadamard_codes_of(quantized, means, first_sample),
                            begin, end, out.raw());
}

const RegisterKernel cuda_quantize{quantize_values, DeviceKind::cuda,
                                   [](const Tensor& x, const QuantizedTensor& quantized, const KnownRanges* known) {
                                     if (quantized.config.rounding == Rounding::hadamard)
                                       quantize_hadamard_on_cuda(x, quantized);
                                     else
                                       quantize_affine_on_cuda(x, quantized, known);
                                   }};
const RegisterKernel cuda_dequantize{
    dequantize_values, DeviceKind::cuda,
    [](const QuantizedTensor& quantized, std::int64_t begin, std::int64_t end, const Tensor& out) {
      if (quantized.config.rounding == Rounding::hadamard)
        dequantize_hadamard_on_cuda(quantized, begin, end, out);
      else
        dequantize_affine_on_cuda(quantized, begin, end, out);
    }};

}  // namespace
}  // namespace lacuna::quant
