#include "optim/adafactor_cuda.h"

#include "core/backend.h"
#include "core/tensor.h"
#include "optim/adafactor_kernels.h"

namespace lacuna {
namespace {

cuda::FactoredMomentsOnCuda on_cuda(const FactoredMoments& moments, const Tensor& gradient) {
  const Shape& shape = gradient.shape();
  const std::int64_t rows = shape[shape.rank() - 2], columns = shape.back();
  return {.gradient = gradient.data<float>(),
          .row = moments.row.data<float>(),
          .column = moments.column.data<float>(),
          .means = moments.means.data<float>(),
          .count = moments.means.count(),
          .rows = rows,
          .columns = columns};
}

const RegisterKernel cuda_moments{update_factored_moments, DeviceKind::cuda,
                                  [](const AdafactorSettings& settings, const Tensor& gradient, const Tensor& step,
                                     const Tensor& finite, const FactoredMoments& moments) {
                                    cuda::update_factored_moments(
                                        stream_of(gradient.device()), settings, step.data<const std::int64_t>(),
                                        finite.defined() ? finite.data<const std::int32_t>() : nullptr,
                                        on_cuda(moments, gradient));
                                  }};

const RegisterKernel cuda_divide{
    divide_by_factored_moments, DeviceKind::cuda, [](const FactoredMoments& moments, const Tensor& gradient) {
      cuda::divide_by_factored_moments(stream_of(gradient.device()), on_cuda(moments, gradient));
    }};

}  // namespace
}  // namespace lacuna
