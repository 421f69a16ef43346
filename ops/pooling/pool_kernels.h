// Kernels of ops/pooling/pool.h. Images are NHWC; tensors of one call have one floating type, unless said otherwise.
#pragma once

#include "core/kernel.h"

#include <cstdint>

namespace lacuna {

class Tensor;
struct AdaptiveAvgPool2d;

/// The windows of a pooling op: [out_height, out_width] of them over each image [height, width, channels].
struct Windows {
  std::int64_t images, height, width, channels;
  std::int64_t kernel, stride, padding;
  bool partial = false;  // whether a last window that the image does not fill counts (PyTorch's ceil_mode)

  constexpr std::int64_t out(std::int64_t extent) const {
    const std::int64_t room = extent + 2 * padding - kernel;
    if (!partial) return room / stride + 1;
    const std::int64_t windows = (room + stride - 1) / stride + 1;
    return (windows - 1) * stride < extent + padding ? windows : windows - 1;  // one in the padding alone does not
  }
  constexpr std::int64_t out_height() const { return out(height); }
  constexpr std::int64_t out_width() const { return out(width); }
};

/// y: [N, OH, OW, C]. winners: u8 [N, OH, bytes of a row], the winning places as ops/pooling/pool.h packs them.
/// unpacked: u8 [threads, OW, C], workspace.
inline constinit Kernel<void(const Windows& windows, const Tensor& x, const Tensor& unpacked, const Tensor& y,
                             const Tensor& winners)>
    max_pool_forward{"max_pool2d"};

/// dx: [N, H, W, C]. unpacked: u8 [threads, rows of windows that cover a row of x, OW, C], workspace.
inline constinit Kernel<void(const Windows& windows, const Tensor& dy, const Tensor& winners, const Tensor& unpacked,
                             const Tensor& dx)>
    max_pool_backward{"max_pool2d backward"};

/// y: [N, OH, OW, C], means over kernel² places or, without `count_include_pad`, over those inside the image.
inline constinit Kernel<void(const Windows& windows, bool count_include_pad, const Tensor& x, const Tensor& y)>
    avg_pool_forward{"avg_pool2d"};

/// dx: [N, H, W, C].
inline constinit Kernel<void(const Windows& windows, bool count_include_pad, const Tensor& dy, const Tensor& dx)>
    avg_pool_backward{"avg_pool2d backward"};

/// y: [N, C], means over the places of x [N, places, C]. sums: [threads, C] in the compute type, workspace.
inline constinit Kernel<void(const Tensor& x, const Tensor& sums, const Tensor& y)> global_avg_pool_forward{
    "global_avg_pool"};

/// dx: [N, places, C]; each place gets dy / places. dy: [N, C].
inline constinit Kernel<void(const Tensor& dy, const Tensor& dx)> global_avg_pool_backward{"global_avg_pool backward"};

/// One direction of adaptive_avg_pool2d: `to` [N, h, w, C] gets the sums of share · `from` over the places that belong
/// together. `backward`: from parts to places. sums: [threads, h · w · C] of the compute type, workspace.
inline constinit Kernel<void(const AdaptiveAvgPool2d& op, bool backward, const Tensor& from, const Tensor& sums,
                             const Tensor& to)>
    adaptive_avg_pool{"adaptive_avg_pool2d"};

}  // namespace lacuna
