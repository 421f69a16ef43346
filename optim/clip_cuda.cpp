#include "optim/clip_cuda.h"

#include "core/backend.h"
#include "core/tensor.h"
#include "optim/kernels.h"

namespace lacuna {
namespace {

const RegisterKernel cuda_measure{
    measure_gradient, DeviceKind::cuda,
    [](const Tensor& gradient, std::int64_t index, const Tensor& squares, const Tensor& finite) {
      const Tensor partial =
          Tensor::empty({cuda::square_parts(gradient.count())}, DType::f64, gradient.device(), Purpose::workspace);
      cuda::sum_of_squares(stream_of(gradient.device()), gradient.dtype(),
                           {.x = gradient.data<const std::byte>(),
                            .count = gradient.count(),
                            .partial = partial.data<double>(),
                            .square = squares.data<double>() + index,
                            .finite = finite.data<std::int32_t>()});
    }};

const RegisterKernel cuda_clip{
    clip_gradients, DeviceKind::cuda,
    [](const Tensor& squares, std::int64_t begin, std::int64_t end, double max_norm, const Tensor& factor) {
      cuda::clip_gradients(stream_of(factor.device()), {.squares = squares.data<const double>() + begin,
                                                        .count = end - begin,
                                                        .max_norm = max_norm,
                                                        .factor = factor.data<float>()});
    }};

const RegisterKernel cuda_add_loss{add_loss, DeviceKind::cuda,
                                   [](const Tensor& loss, double weight, const Tensor& total, const Tensor& finite) {
                                     expect(loss.dtype() == DType::f32 || loss.dtype() == DType::f64,
                                            "loss of a step: expected f32 or f64, got {}", name_of(loss.dtype()));
                                     cuda::add_loss(stream_of(total.device()), {.loss = loss.data<const std::byte>(),
                                                                                .is_double = loss.dtype() == DType::f64,
                                                                                .weight = weight,
                                                                                .total = total.data<double>(),
                                                                                .finite = finite.data<std::int32_t>()});
                                   }};

}  // namespace
}  // namespace lacuna
