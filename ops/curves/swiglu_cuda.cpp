#include "ops/curves/swiglu_cuda.h"

#include "ops/cuda/operand.h"
#include "ops/curves/swiglu.h"

namespace lacuna {
namespace {

const RegisterKernel cuda_forward{
    swiglu_forward, DeviceKind::cuda, [](const Tensor& x, const Tensor& y) {
      cuda::swiglu_forward(stream_of(y.device()), y.dtype(),
                           {.x = x.data<const std::byte>(), .y = y.raw(), .rows = y.rows(), .width = y.shape().back()});
    }};

const RegisterKernel cuda_backward{
    swiglu_backward, DeviceKind::cuda, [](const Operand& x, const Tensor& dy, const Tensor& dx) {
      const auto backward = [&](std::int64_t begin, std::int64_t end, const cuda::SavedValues& values) {
        cuda::swiglu_backward(stream_of(dx.device()), dx.dtype(),
                              {.x = values,
                               .dy = dy.row_range(begin, end).data<const std::byte>(),
                               .dx = dx.row_range(begin, end).raw(),
                               .rows = end - begin,
                               .width = dy.shape().back()});
      };
      if (dy.shape().back() % 8 == 0)
        cuda::for_saved_values(x, dy.rows(), backward);
      else
        cuda::for_decoded_values(x, dy.rows(), backward);
    }};

}  // namespace
}  // namespace lacuna
