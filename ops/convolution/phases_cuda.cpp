#include "ops/convolution/phases_cuda.h"

#include "core/backend.h"
#include "core/tensor.h"
#include "ops/convolution/phases.h"

namespace lacuna {
namespace {

const RegisterKernel cuda_split{split_phases, DeviceKind::cuda,
                                [](const Phases& phases, const Tensor& images, const Tensor& split) {
                                  cuda::split_phases(stream_of(split.device()), split.dtype(), phases,
                                                     split.shape().back(), images.data<const std::byte>(), split.raw());
                                }};
const RegisterKernel cuda_join{
    join_phases, DeviceKind::cuda, [](const Phases& phases, const Tensor& split, const Tensor& images, bool add) {
      cuda::join_phases(stream_of(images.device()), images.dtype(), phases, images.shape().back(),
                        split.data<const std::byte>(), images.raw(), add);
    }};

}  // namespace
}  // namespace lacuna
