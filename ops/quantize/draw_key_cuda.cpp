#include "ops/quantize/draw_key_cuda.h"

#include "core/backend.h"
#include "ops/quantize/quantize_kernels.h"

namespace lacuna::quant {
namespace {

const RegisterKernel cuda_draw_key{
    draw_key, DeviceKind::cuda, [](const RandomStream& stream, std::uint64_t number, const Tensor& key) {
      cuda::draw_key(stream_of(key.device()), stream, number, reinterpret_cast<std::uint64_t*>(key.raw()));
    }};

}  // namespace
}  // namespace lacuna::quant
