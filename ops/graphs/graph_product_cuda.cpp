#include "ops/graphs/graph_product_cuda.h"

#include "core/backend.h"
#include "ops/graphs/graph_on_cuda.h"
#include "ops/graphs/graph_product_kernels.h"

namespace lacuna {
namespace {

const RegisterKernel cuda_product{graph_product,
                                  {DeviceKind::cuda, DeviceKind::meta},
                                  [](const Neighbours& of, const Tensor& scale, const Tensor& values,
                                     const Tensor& places, const Tensor& x, const Tensor& y) {
                                    const Tensor partial = for_pieces(of, y.shape().back());
                                    if (y.device() == Device::meta) return;
                                    cuda::sum_neighbours(stream_of(y.device()), y.dtype(),
                                                         {.of = on_device(of),
                                                          .scale = pointer<const float>(scale),
                                                          .values = pointer<const float>(values),
                                                          .places = pointer<const std::int32_t>(places),
                                                          .x = x.data<const std::byte>(),
                                                          .rows = x.rows(),
                                                          .y = y.raw(),
                                                          .width = y.shape().back(),
                                                          .partial = pointer<float>(partial)});
                                  }};
const RegisterKernel cuda_value_gradient{
    graph_value_gradient, DeviceKind::cuda,
    [](const Neighbours& of, const Tensor& scale, const Tensor& x, const Tensor& dy, const Tensor& dvalues) {
      cuda::value_gradient(stream_of(dy.device()), dy.dtype(),
                           {.of = on_device(of),
                            .scale = pointer<const float>(scale),
                            .x = x.data<const std::byte>(),
                            .dy = dy.data<const std::byte>(),
                            .dvalues = dvalues.data<float>(),
                            .width = dy.shape().back()});
    }};
const RegisterKernel cuda_segment_sum{
    segment_sum, {DeviceKind::cuda, DeviceKind::meta}, [](const Neighbours& of, const Tensor& x, const Tensor& y) {
      const Tensor partial = for_pieces(of, y.shape().back());
      if (y.device() == Device::meta) return;
      cuda::DeviceNeighbours entries = on_device(of);
      entries.ends = nullptr;
      cuda::sum_neighbours(stream_of(y.device()), y.dtype(),
                           {.of = entries,
                            .scale = nullptr,
                            .values = nullptr,
                            .places = nullptr,
                            .x = x.data<const std::byte>(),
                            .rows = x.rows(),
                            .y = y.raw(),
                            .width = y.shape().back(),
                            .partial = pointer<float>(partial)});
    }};
const RegisterKernel cuda_segment_spread{segment_spread, DeviceKind::cuda,
                                         [](const Neighbours& of, const Tensor& y, const Tensor& x) {
                                           cuda::spread_to_entries(stream_of(y.device()), y.dtype(),
                                                                   {.of = on_device(of),
                                                                    .y = y.data<const std::byte>(),
                                                                    .x = x.raw(),
                                                                    .entries = x.rows(),
                                                                    .width = y.shape().back()});
                                         }};

}  // namespace
}  // namespace lacuna
