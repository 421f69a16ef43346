#include "ops/norms/l2_normalize_cuda.h"

#include "core/backend.h"
#include "core/tensor.h"
#include "ops/norms/l2_normalize.h"

namespace lacuna {
namespace {

const RegisterKernel cuda_forward{l2_normalize_forward, DeviceKind::cuda, [](const Tensor& x, const Tensor& y) {
                                    cuda::l2_normalize(stream_of(x.device()), x.dtype(),
                                                       {.x = x.data<const std::byte>(),
                                                        .dy = nullptr,
                                                        .to = y.raw(),
                                                        .rows = x.rows(),
                                                        .columns = x.shape().back()});
                                  }};
const RegisterKernel cuda_backward{l2_normalize_backward, DeviceKind::cuda,
                                   [](const Tensor& x, const Tensor& dy, const Tensor& dx) {
                                     cuda::l2_normalize(stream_of(x.device()), x.dtype(),
                                                        {.x = x.data<const std::byte>(),
                                                         .dy = dy.data<const std::byte>(),
                                                         .to = dx.raw(),
                                                         .rows = x.rows(),
                                                         .columns = x.shape().back()});
                                   }};

}  // namespace
}  // namespace lacuna
