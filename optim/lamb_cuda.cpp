#include "optim/lamb_cuda.h"

#include "optim/kernels.h"
#include "optim/start_update.h"

namespace lacuna {
namespace {

const RegisterKernel cuda_update{
    lamb_update, DeviceKind::cuda, [](const LambSettings& settings, const Update& what) {
      const Device device = what.parameter.device();
      const Tensor first = cuda::begun_workspace(what), second = cuda::begun_workspace(what);
      const Tensor squares =
          Tensor::empty({2 + cuda::square_parts(what.parameter.count())}, DType::f64, device, Purpose::workspace);
      cuda::update(stream_of(device), LambRule{settings, what.rate},
                   {.update = cuda::on_cuda(what, first),
                    .begun = second.raw(),
                    .squares = squares.data<double>(),
                    .partial = squares.data<double>() + 2});
    }};

}  // namespace
}  // namespace lacuna
