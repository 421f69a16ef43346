#include "ops/quantize/hadamard_cuda.h"

#include "core/backend.h"
#include "ops/quantize/hadamard_quantize.h"
#include "ops/quantize/hadamard_shape.h"
#include "ops/quantize/layout.h"
#include "ops/quantize/quantize_kernels.h"

namespace lacuna::quant {
namespace {

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
                   .first_sample = first_sample,
                   .by_columns = cuda::Divisor(quantized.shape.back()),
                   .by_sample = cuda::Divisor(layout.count / quantized.shape.front())};
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
  encode_affine(x.device(), means, stored, nullptr);
  decode_affine(x.device(), stored, 0, means.count(), means);
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
    decode_affine(out.device(), stored, samples.begin * columns, samples.end * columns, means);
  }
  cuda::dequantize_hadamard(stream_of(out.device()), out.dtype(), hadamard_codes_of(quantized, means, first_sample),
                            begin, end, out.raw());
}

const RegisterKernel cuda_encode{encode_hadamard, DeviceKind::cuda, quantize_hadamard_on_cuda};
const RegisterKernel cuda_decode{decode_hadamard, DeviceKind::cuda, dequantize_hadamard_on_cuda};

}  // namespace
}  // namespace lacuna::quant
