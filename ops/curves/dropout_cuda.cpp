#include "ops/curves/dropout_cuda.h"

#include "core/backend.h"
#include "ops/cuda/sequences_on_device.h"
#include "ops/curves/dropout_kernels.h"

#include <optional>

namespace lacuna {
namespace {

cuda::Drop drop_of(const DropRate& rate, std::int64_t first, std::int64_t sample_size, const Tensor& x,
                   const Tensor& residual, const Tensor& y) {
  return {.x = x.data<const std::byte>(),
          .residual = residual.defined() ? residual.data<const std::byte>() : nullptr,
          .y = y.raw(),
          .count = y.count(),
          .first = first,
          .sample_size = sample_size,
          .dropped_below = rate.dropped_below,
          .scale = static_cast<float>(rate.scale),
          .whole_samples = false};
}

const RegisterKernel cuda_drop_elements{
    drop_elements, DeviceKind::cuda,
    [](const DropRate& rate, const RandomStream& random, std::int64_t first, std::int64_t sample_size,
       const Sequences* sequences, const Tensor& x, const Tensor& residual, const Tensor& y) {
      cuda::Drop what = drop_of(rate, first, sample_size, x, residual, y);
      std::optional<cuda::SequencesOnDevice> there;
      if (sequences != nullptr) {
        there.emplace(*sequences, y.device());
        what.offsets = there->rows().offsets;
        what.samples = there->rows().count;
      }
      cuda::drop(stream_of(y.device()), y.dtype(), random, what);
    }};

const RegisterKernel cuda_drop_samples{
    drop_samples, DeviceKind::cuda,
    [](const DropRate& rate, const RandomStream& random, std::int64_t first, std::int64_t sample_size, const Tensor& x,
       const Tensor& residual, const Tensor& y) {
      cuda::Drop what = drop_of(rate, first, sample_size, x, residual, y);
      what.whole_samples = true;
      cuda::drop(stream_of(y.device()), y.dtype(), random, what);
    }};

}  // namespace
}  // namespace lacuna
