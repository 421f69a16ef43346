#include "ops/quantize/sign_mask_cuda.h"

#include "core/backend.h"
#include "ops/quantize/quantize_kernels.h"

namespace lacuna::quant {
namespace {

const RegisterKernel cuda_pack{pack_sign_bits, DeviceKind::cuda, [](const Tensor& values, const Tensor& bits) {
                                 cuda::pack_sign_bits(stream_of(values.device()), values.dtype(), values.raw(),
                                                      values.count(), bits.data<std::uint8_t>());
                               }};
const RegisterKernel cuda_apply{
    apply_sign_bits, DeviceKind::cuda,
    [](const Tensor& in, const Tensor& bits, std::int64_t first, bool keep_nan, const Tensor& out) {
      cuda::apply_sign_bits(stream_of(in.device()), in.dtype(),
                            {.in = in.raw(),
                             .bits = bits.data<std::uint8_t>(),
                             .first = first,
                             .keep_nan = keep_nan,
                             .out = out.raw(),
                             .count = in.count()});
    }};

}  // namespace
}  // namespace lacuna::quant
