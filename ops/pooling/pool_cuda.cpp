#include "ops/pooling/pool_cuda.h"

#include "core/backend.h"
#include "core/tensor.h"
#include "ops/pooling/pool.h"
#include "ops/pooling/pool_kernels.h"

#include <algorithm>
#include <bit>

namespace lacuna {
namespace {

cuda::PoolAxis axis_of(const Windows& w, std::int64_t extent) {
  const auto number = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  return {number(extent), number(w.out(extent)), number(w.kernel), number(w.stride), number(w.padding)};
}
cuda::PoolWindows windows_of(const Windows& w) {
  return {axis_of(w, w.height), axis_of(w, w.width), w.images, w.channels};
}

/// winners: [N, OH, bytes of a row].
cuda::MaxPool max_pool_of(const Windows& w, const Tensor& winners) {
  return {windows_of(w),
          std::max(1, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(w.kernel * w.kernel - 1)))),
          winners.shape().back()};
}

cuda::PoolAxis parts_of(std::int64_t extent, std::int64_t parts) {
  return {static_cast<std::int32_t>(extent), static_cast<std::int32_t>(parts), 0, 0, 0};
}

cuda::GlobalPool global_pool_of(const Shape& x) {
  const std::int64_t images = x.front(), channels = x.back();
  return {images, x.count() / std::max<std::int64_t>(images * channels, 1), channels};
}

const RegisterKernel cuda_max_forward{
    max_pool_forward, DeviceKind::cuda,
    [](const Windows& w, const Tensor& x, const Tensor&, const Tensor& y, const Tensor& winners) {
      cuda::max_pool_forward(stream_of(y.device()), y.dtype(), max_pool_of(w, winners), x.data<const std::byte>(),
                             y.raw(), winners.data<std::uint8_t>());
    }};
const RegisterKernel cuda_max_backward{
    max_pool_backward, DeviceKind::cuda,
    [](const Windows& w, const Tensor& dy, const Tensor& winners, const Tensor&, const Tensor& dx) {
      cuda::max_pool_backward(stream_of(dx.device()), dx.dtype(), max_pool_of(w, winners), dy.data<const std::byte>(),
                              winners.data<const std::uint8_t>(), dx.raw());
    }};
const RegisterKernel cuda_avg_forward{avg_pool_forward, DeviceKind::cuda,
                                      [](const Windows& w, bool count_include_pad, const Tensor& x, const Tensor& y) {
                                        cuda::mean_pool_forward(stream_of(y.device()), y.dtype(), windows_of(w),
                                                                count_include_pad, x.data<const std::byte>(), y.raw());
                                      }};
const RegisterKernel cuda_avg_backward{
    avg_pool_backward, DeviceKind::cuda,
    [](const Windows& w, bool count_include_pad, const Tensor& dy, const Tensor& dx) {
      cuda::mean_pool_backward(stream_of(dx.device()), dx.dtype(), windows_of(w), count_include_pad,
                               dy.data<const std::byte>(), dx.raw());
    }};
const RegisterKernel cuda_adaptive{
    adaptive_avg_pool, DeviceKind::cuda,
    [](const AdaptiveAvgPool2d& op, bool backward, const Tensor& from, const Tensor&, const Tensor& to) {
      const cuda::PoolWindows windows{parts_of(op.height, op.out_height), parts_of(op.width, op.out_width),
                                      to.shape().front(), to.shape().back()};
      const auto pool = backward ? cuda::mean_pool_backward : cuda::mean_pool_forward;
      pool(stream_of(to.device()), to.dtype(), windows, false, from.data<const std::byte>(), to.raw());
    }};
const RegisterKernel cuda_global_forward{
    global_avg_pool_forward, DeviceKind::cuda, [](const Tensor& x, const Tensor&, const Tensor& y) {
      cuda::global_pool_forward(stream_of(y.device()), y.dtype(), global_pool_of(x.shape()), x.data<const std::byte>(),
                                y.raw());
    }};
const RegisterKernel cuda_global_backward{
    global_avg_pool_backward, DeviceKind::cuda, [](const Tensor& dy, const Tensor& dx) {
      cuda::global_pool_backward(stream_of(dx.device()), dx.dtype(), global_pool_of(dx.shape()),
                                 dy.data<const std::byte>(), dx.raw());
    }};

}  // namespace
}  // namespace lacuna
