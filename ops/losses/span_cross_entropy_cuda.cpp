#include "ops/losses/span_cross_entropy_cuda.h"

#include "core/backend.h"
#include "ops/cuda/sequences_on_device.h"
#include "ops/losses/span_cross_entropy.h"

namespace lacuna {
namespace {

const RegisterKernel cuda_forward{
    span_cross_entropy_forward, DeviceKind::cuda,
    [](const Sequences& sequences, const Tensor& logits, const Tensor& positions, const Tensor& loss) {
      const cuda::SequencesOnDevice there(sequences, logits.device());
      const Tensor losses = Tensor::empty(positions.shape(), DType::f32, logits.device(), Purpose::workspace);
      cuda::span_losses(stream_of(logits.device()), logits.dtype(),
                        {.sequences = there.rows(),
                         .logits = logits.data<const std::byte>(),
                         .positions = positions.data<const std::int64_t>(),
                         .columns = positions.shape().back(),
                         .losses = losses.data<float>(),
                         .loss = loss.data<float>()});
    }};
const RegisterKernel cuda_backward{
    span_cross_entropy_backward, DeviceKind::cuda,
    [](const Sequences& sequences, const Tensor& logits, const Tensor& positions, const Tensor& dy, const Tensor& dz) {
      const cuda::SequencesOnDevice there(sequences, logits.device());
      cuda::span_gradients(stream_of(logits.device()), logits.dtype(),
                           {.sequences = there.rows(),
                            .logits = logits.data<const std::byte>(),
                            .positions = positions.data<const std::int64_t>(),
                            .columns = positions.shape().back(),
                            .dy = dy.data<const float>(),
                            .dz = dz.raw()});
    }};

}  // namespace
}  // namespace lacuna
