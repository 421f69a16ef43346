#include "ops/detection/box_losses_cuda.h"

#include "core/backend.h"
#include "core/planned_device.h"
#include "ops/arithmetic/reduce_cuda.h"
#include "ops/detection/box_losses.h"

namespace lacuna {
namespace {

cuda::FocalCall call_of(const FocalLoss& op, const Tensor& logits, const Tensor& labels, const Tensor& weights) {
  return {.logits = logits.data<const std::byte>(),
          .labels = labels.data<const std::int64_t>(),
          .weights = weights.data<const float>(),
          .rows = logits.rows(),
          .classes = logits.shape().back(),
          .alpha = static_cast<float>(op.alpha),
          .gamma = static_cast<float>(op.gamma)};
}
cuda::RowsCall call_of(double beta, const Tensor& rows, const Tensor& weights, const Tensor& differences) {
  return {.rows = rows.data<const std::int64_t>(),
          .weights = weights.data<const float>(),
          .differences = differences.raw(),
          .count = rows.count(),
          .width = differences.shape().back(),
          .beta = static_cast<float>(beta)};
}

/// The sums of blocks of `elements`, and the kernel that adds them.
Tensor parts_of(std::int64_t elements, Device device) {
  return Tensor::empty({(elements + cuda::losses_together - 1) / cuda::losses_together}, DType::f64, device,
                       Purpose::workspace);
}
void add_parts(const Tensor& parts, const Tensor& loss) {
  cuda::sum_in_order(stream_of(loss.device()), DType::f32,
                     {.in_f64 = parts.data<const double>(), .count = parts.count(), .y = loss.raw()});
}

const RegisterKernel focal_forward_on_cuda{
    focal_loss_forward,
    {DeviceKind::cuda, DeviceKind::meta},
    [](const FocalLoss& op, const Tensor& logits, const Tensor& labels, const Tensor& weights, const Tensor& loss) {
      if (!computes_on_cuda(loss.device())) return;
      const Tensor parts = parts_of(logits.count(), loss.device());
      if (loss.device() == Device::meta) return;
      cuda::sum_focal(stream_of(loss.device()), logits.dtype(), call_of(op, logits, labels, weights),
                      parts.data<double>());
      add_parts(parts, loss);
    }};
const RegisterKernel focal_backward_on_cuda{focal_loss_backward, DeviceKind::cuda,
                                            [](const FocalLoss& op, const Tensor& logits, const Tensor& labels,
                                               const Tensor& weights, const Tensor& dy, const Tensor& dlogits) {
                                              cuda::focal_gradient(stream_of(dy.device()), logits.dtype(),
                                                                   call_of(op, logits, labels, weights),
                                                                   dy.data<const float>(), dlogits.raw());
                                            }};
const RegisterKernel rows_forward_on_cuda{
    row_smooth_l1_forward,
    {DeviceKind::cuda, DeviceKind::meta},
    [](double beta, const Tensor& x, const Tensor& rows, const Tensor& targets, const Tensor& weights,
       const Tensor& differences, const Tensor& loss) {
      if (!computes_on_cuda(loss.device())) return;
      const Tensor parts = parts_of(differences.count(), loss.device());
      if (loss.device() == Device::meta) return;
      cuda::sum_rows(stream_of(loss.device()), x.dtype(), call_of(beta, rows, weights, differences),
                     x.data<const std::byte>(), targets.data<const float>(), parts.data<double>());
      add_parts(parts, loss);
    }};
const RegisterKernel rows_backward_on_cuda{row_smooth_l1_backward, DeviceKind::cuda,
                                           [](double beta, const Tensor& rows, const Tensor& weights,
                                              const Tensor& differences, const Tensor& dy, const Tensor& dx) {
                                             cuda::rows_gradient(stream_of(dy.device()), dx.dtype(),
                                                                 call_of(beta, rows, weights, differences),
                                                                 dy.data<const float>(), dx.raw());
                                           }};

}  // namespace
}  // namespace lacuna
