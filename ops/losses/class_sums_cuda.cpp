#include "ops/losses/class_sums_cuda.h"

#include "core/backend.h"
#include "core/tensor.h"
#include "ops/losses/class_sums.h"

namespace lacuna {
namespace {

cuda::ClassRows rows_of(const ClassTargets& targets, const Tensor& labels, const Tensor& sums) {
  return {.labels = labels.data<const std::int64_t>(),
          .sums = sums.data<float>(),
          .rows = labels.count(),
          .classes = targets.classes,
          .ignored = targets.ignored,
          .label_smoothing = targets.label_smoothing,
          .soft_cap = targets.soft_cap};
}

const RegisterKernel cuda_absorb{
    absorb_classes, DeviceKind::cuda,
    [](const ClassTargets& targets, std::int64_t first, bool gradient, const Tensor& labels, const Tensor& logits,
       const Tensor& sums, const Tensor& running) {
      cuda::absorb_classes(stream_of(logits.device()), rows_of(targets, labels, sums),
                           {.logits = logits.data<float>(),
                            .first = first,
                            .count = logits.shape().back(),
                            .gradient = gradient,
                            .running = running.defined() ? running.data<float>() : nullptr,
                            .width = running.defined() ? running.shape().back() : 0});
    }};

const RegisterKernel cuda_label_rows{
    take_label_rows, DeviceKind::cuda,
    [](std::int64_t first, const Tensor& labels, const Tensor& weight, const Tensor& rows) {
      cuda::take_label_rows(stream_of(rows.device()), weight.dtype(),
                            {.labels = labels.data<const std::int64_t>(),
                             .weight = weight.data<const std::byte>(),
                             .to = rows.data<float>(),
                             .rows = labels.count(),
                             .first = first,
                             .count = weight.shape()[0],
                             .width = weight.shape()[1]});
    }};

const RegisterKernel cuda_losses{
    add_class_losses, DeviceKind::cuda,
    [](const ClassTargets& targets, const Tensor& labels, const Tensor& sums, const Tensor& sum) {
      cuda::add_class_losses(stream_of(sum.device()), rows_of(targets, labels, sums), sum.data<double>());
    }};

const RegisterKernel cuda_gradient{
    class_gradient, DeviceKind::cuda,
    [](const ClassTargets& targets, const Tensor& scale, const Tensor& labels, const Tensor& sums,
       const Tensor& running, const Tensor& of_labels, const Tensor& to) {
      cuda::class_gradient(stream_of(to.device()), to.dtype(), rows_of(targets, labels, sums),
                           {.scale = scale.data<const float>(),
                            .running = running.data<const float>(),
                            .of_labels = of_labels.data<const float>(),
                            .to = to.raw(),
                            .width = to.shape().back()});
    }};

}  // namespace
}  // namespace lacuna
