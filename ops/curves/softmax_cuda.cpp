#include "ops/curves/softmax_cuda.h"

#include "core/backend.h"
#include "core/tensor.h"
#include "ops/curves/softmax_kernels.h"

namespace lacuna {
namespace {

template <bool log>
void forward_on_cuda(const Tensor& x, const Tensor& y) {
  cuda::softmax_forward(
      stream_of(y.device()), y.dtype(),
      {.x = x.data<const std::byte>(), .y = y.raw(), .rows = y.rows(), .columns = y.shape().back(), .log = log});
}

template <bool log>
void backward_on_cuda(const Tensor& y, const Tensor& dy, const Tensor& dx) {
  cuda::softmax_backward(stream_of(dx.device()), dx.dtype(),
                         {.y = y.data<const std::byte>(),
                          .dy = dy.data<const std::byte>(),
                          .dx = dx.raw(),
                          .rows = dx.rows(),
                          .columns = dx.shape().back(),
                          .log = log});
}

const RegisterKernel cuda_softmax{softmax_forward, DeviceKind::cuda, forward_on_cuda<false>};
const RegisterKernel cuda_log_softmax{log_softmax_forward, DeviceKind::cuda, forward_on_cuda<true>};
const RegisterKernel cuda_softmax_backward{softmax_backward, DeviceKind::cuda, backward_on_cuda<false>};
const RegisterKernel cuda_log_softmax_backward{log_softmax_backward, DeviceKind::cuda, backward_on_cuda<true>};

}  // namespace
}  // namespace lacuna
