#include "autograd/accumulate_cuda.h"

#include "autograd/accumulate_kernels.h"
#include "core/backend.h"
#include "core/tensor.h"
#include "ops/cuda/map.h"

#include <algorithm>

namespace lacuna {
namespace {

const RegisterKernel cuda_subtract{subtract_elements, DeviceKind::cuda,
                                   [](const Tensor& a, const Tensor& b, const Tensor& out) {
                                     cuda::map(stream_of(out.device()), out.dtype(), out.count(), cuda::Difference{},
                                               a.data<const std::byte>(), b.data<const std::byte>(), out.raw());
                                   }};

// Waiting for the sums is fine, since calibration is not part of a step.
const RegisterKernel cuda_squared_differences{
    sum_squared_differences, DeviceKind::cuda,
    [](const Tensor& a, const Tensor& b, std::span<const std::int64_t> bounds, std::span<double> sums) {
      const std::int64_t parts = std::ssize(sums);
      const Tensor places = Tensor::from(bounds, {parts + 1}, a.device());
      const Tensor found = Tensor::empty({parts}, DType::f64, a.device(), Purpose::workspace);
      cuda::squared_differences(stream_of(a.device()), a.dtype(),
                                {.a = a.data<const std::byte>(),
                                 .b = b.defined() ? b.data<const std::byte>() : nullptr,
                                 .bounds = places.data<const std::int64_t>(),
                                 .sums = found.data<double>(),
                                 .parts = parts});
      std::ranges::copy(found.to_vector(), sums.begin());
    }};

const RegisterKernel cuda_draw_signs{
    draw_signs, DeviceKind::cuda, [](const Tensor& a, const RandomStream& stream, const Tensor& out) {
      cuda::draw_signs(stream_of(out.device()), out.dtype(), stream,
                       {.a = a.data<const std::byte>(), .out = out.raw(), .count = out.count()});
    }};

}  // namespace
}  // namespace lacuna
