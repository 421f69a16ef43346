#include "optim/clip_cuda.h"

#include "ops/arithmetic/factor.h"
#include "optim/chunk_table.h"
#include "optim/kernels.h"

#include <utility>
#include <vector>

namespace lacuna {
namespace {

const RegisterKernel cuda_measure{
    measure_gradients, DeviceKind::cuda,
    [](std::span<const MeasuredGradient> gradients, const Tensor& squares, const Tensor& finite) {
      const Device device = squares.device();
      std::vector<cuda::MeasuredTensor> entries;
      for (const auto& [gradient, index] : gradients)
        entries.push_back({.x = gradient.data<const std::byte>(),
                           .type = gradient.dtype(),
                           .count = gradient.count(),
                           .first_chunk = 0,
                           .index = index});
      const cuda::ChunkTable<cuda::MeasuredTensor> table(std::move(entries), device);
      const Tensor partial = Tensor::empty({table.chunks()}, DType::f64, device, Purpose::workspace);
      cuda::sums_of_squares(stream_of(device), {.tensors = table.table(),
                                                .partial = partial.data<double>(),
                                                .squares = squares.data<double>(),
                                                .finite = finite.data<std::int32_t>()});
    }};

const RegisterKernel cuda_clip{clip_gradients, DeviceKind::cuda,
                               [](const Tensor& squares, std::int64_t begin, std::int64_t end, double max_norm,
                                  const Tensor& scale, const Tensor& factor) {
                                 cuda::clip_gradients(stream_of(factor.device()),
                                                      {.squares = squares.data<const double>() + begin,
                                                       .count = end - begin,
                                                       .max_norm = max_norm,
                                                       .scale = scale.defined() ? scale.data<const float>() : nullptr,
                                                       .factor = factor.data<float>()});
                               }};

const RegisterKernel cuda_add_loss{
    add_loss, DeviceKind::cuda,
    [](const Tensor& loss, const Factor& weight, const Tensor& total, const Tensor& finite) {
      expect(loss.dtype() == DType::f32 || loss.dtype() == DType::f64, "loss of a step: expected f32 or f64, got {}",
             name_of(loss.dtype()));
      cuda::add_loss(stream_of(total.device()), {.loss = loss.data<const std::byte>(),
                                                 .is_double = loss.dtype() == DType::f64,
                                                 .weight = weight.value,
                                                 .times = weight.times(),
                                                 .total = total.data<double>(),
                                                 .finite = finite.data<std::int32_t>()});
    }};

const RegisterKernel cuda_look{look_for_nonfinite, DeviceKind::cuda, [](const Tensor& values, const Tensor& finite) {
                                 cuda::look_for_nonfinite(stream_of(values.device()), values.data<const double>(),
                                                          values.count(), finite.data<std::int32_t>());
                               }};

}  // namespace
}  // namespace lacuna
