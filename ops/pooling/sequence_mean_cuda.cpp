#include "ops/pooling/sequence_mean_cuda.h"

#include "core/backend.h"
#include "ops/cuda/sequences_on_device.h"
#include "ops/pooling/sequence_mean.h"

namespace lacuna {
namespace {

cuda::SequenceMeans means_of(const cuda::SequencesOnDevice& sequences, const Tensor& rows, const Tensor& means) {
  return {.sequences = sequences.rows(), .rows = rows.raw(), .means = means.raw(), .width = rows.shape().back()};
}

const RegisterKernel cuda_forward{sequence_mean_forward, DeviceKind::cuda,
                                  [](const Sequences& sequences, const Tensor& x, const Tensor& y) {
                                    const cuda::SequencesOnDevice there(sequences, x.device());
                                    cuda::sequence_means(stream_of(x.device()), x.dtype(), means_of(there, x, y));
                                  }};
const RegisterKernel cuda_backward{
    sequence_mean_backward, DeviceKind::cuda, [](const Sequences& sequences, const Tensor& dy, const Tensor& dx) {
      const cuda::SequencesOnDevice there(sequences, dx.device());
      cuda::spread_over_sequences(stream_of(dx.device()), dx.dtype(), means_of(there, dx, dy));
    }};

}  // namespace
}  // namespace lacuna
