#include "ops/arithmetic/reduce_cuda.h"

#include "core/backend.h"
#include "core/tensor.h"
#include "ops/arithmetic/factor.h"
#include "ops/arithmetic/reduce_kernels.h"

namespace lacuna {
namespace {

const RegisterKernel cuda_sum{
    sum_elements, DeviceKind::cuda, [](double factor, const Tensor& x, const Tensor& partial, const Tensor& y) {
      const Stream stream = stream_of(y.device());
      double* const sums = partial.data<double>();
      cuda::sum_runs(stream, x.dtype(),
                     {.x = x.data<const std::byte>(), .partial = sums, .count = x.count(), .run = sum_run});
      cuda::sum_in_order(stream, y.dtype(), {.in_f64 = sums, .count = partial.count(), .y = y.raw(), .factor = factor});
    }};

const RegisterKernel cuda_spread{
    spread_gradient, DeviceKind::cuda, [](double factor, const Tensor& dy, const Tensor& dx) {
      cuda::spread(stream_of(dx.device()), dx.dtype(),
                   {.from = dy.data<const std::byte>(), .to = dx.raw(), .count = dx.count(), .factor = factor});
    }};

const RegisterKernel cuda_add_to_sums{add_to_sums, DeviceKind::cuda,
                                      [](const Factor& factor, const Tensor& x, const Tensor& sums) {
                                        cuda::add_to_sums(stream_of(sums.device()), x.dtype(),
                                                          {.x = x.data<const std::byte>(),
                                                           .sums = sums.data<double>(),
                                                           .count = sums.count(),
                                                           .factor = factor.value,
                                                           .times = factor.times()});
                                      }};

const RegisterKernel cuda_sum_repetitions{
    sum_repetitions, DeviceKind::cuda, [](const Tensor& x, const Tensor& y) {
      const std::int64_t columns = y.count(), rows = columns == 0 ? 0 : x.count() / columns;
      if (rows == 0) return;
      const std::int64_t blocks = cuda::column_sum_blocks(rows, columns);
      const Tensor partial =
          Tensor::empty({blocks == 1 ? 0 : blocks, columns}, DType::f32, y.device(), Purpose::workspace);
      cuda::add_column_sums(stream_of(y.device()), x.dtype(),
                            {.x = x.data<const std::byte>(),
                             .partial = partial.data<float>(),
                             .to = y.data<float>(),
                             .rows = rows,
                             .columns = columns,
                             .blocks = blocks});
    }};

}  // namespace
}  // namespace lacuna
