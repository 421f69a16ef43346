#include "optim/muon_cuda.h"

#include "core/backend.h"
#include "core/tensor.h"
#include "optim/muon_kernels.h"

namespace lacuna {
namespace {

const RegisterKernel cuda_factor{
    newton_schulz_factor, DeviceKind::cuda,
    [](double identity, double linear, double quadratic, const Tensor& gram, const Tensor& square) {
      cuda::newton_schulz_factor(stream_of(square.device()), {.gram = gram.data<const float>(),
                                                              .square = square.data<float>(),
                                                              .n = square.shape()[0],
                                                              .identity = static_cast<float>(identity),
                                                              .linear = static_cast<float>(linear),
                                                              .quadratic = static_cast<float>(quadratic)});
    }};

}  // namespace
}  // namespace lacuna
