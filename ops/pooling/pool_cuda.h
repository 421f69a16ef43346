// Launchers of ops/pooling/pool.cu. Images are NHWC of `type`.
#pragma once

#include "core/number.h"
#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

/// Windows along one axis of images: those of a kernel with a stride, or parts of equal size (adaptive pooling).
struct PoolAxis {
  std::int32_t extent, windows;
  std::int32_t kernel, stride, padding;  // kernel 0: window i has the places from ⌊i · extent / windows⌋ on

  struct Range {
    std::int32_t begin, end;
    LACUNA_HOST_DEVICE std::int32_t size() const { return end - begin; }
  };
  /// Places inside the image that window i covers.
  LACUNA_HOST_DEVICE Range covered(std::int32_t i) const {
    if (kernel == 0) return {at(i, extent, windows), at(i + 1, extent, windows, windows - 1)};
    const std::int32_t first = i * stride - padding, last = first + kernel;
    return {first < 0 ? 0 : first, last < extent ? last : extent};
  }
  /// Windows that cover a place.
  LACUNA_HOST_DEVICE Range covering(std::int32_t place) const {
    if (kernel == 0) return {at(place, windows, extent), at(place + 1, windows, extent, extent - 1)};
    const std::int32_t before = place + padding - kernel, last = (place + padding) / stride + 1;
    return {before < 0 ? 0 : before / stride + 1, last < windows ? last : windows};
  }

 private:
  LACUNA_HOST_DEVICE static std::int32_t at(std::int64_t i, std::int32_t to, std::int32_t from, std::int32_t rest = 0) {
    return static_cast<std::int32_t>((i * to + rest) / from);
  }
};

struct PoolWindows {
  PoolAxis down, across;
  std::int64_t images, channels;
};

/// Maxima of windows, and their places as codes of `bits` bits, packed row by row (ops/quantize/bit_planes.h).
struct MaxPool {
  PoolWindows windows;
  int bits;
  std::int64_t row_bytes;  // of the places of one row of windows
};
/// x: images; y: [N, windows down, windows across, C]; places: [N, windows down, row_bytes].
void max_pool_forward(Stream stream, DType type, const MaxPool& pool, const void* x, void* y, std::uint8_t* places);
void max_pool_backward(Stream stream, DType type, const MaxPool& pool, const void* dy, const std::uint8_t* places,
                       void* dx);

/// Means of windows: of kernel² places if `counts_padding`, otherwise of those inside the image.
void mean_pool_forward(Stream stream, DType type, const PoolWindows& windows, bool counts_padding, const void* x,
                       void* y);
void mean_pool_backward(Stream stream, DType type, const PoolWindows& windows, bool counts_padding, const void* dy,
                        void* dx);

/// Means over the places of x [images, places, channels], in y [images, channels].
struct GlobalPool {
  std::int64_t images, places, channels;
};
void global_pool_forward(Stream stream, DType type, const GlobalPool& pool, const void* x, void* y);
void global_pool_backward(Stream stream, DType type, const GlobalPool& pool, const void* dy, void* dx);

}  // namespace lacuna::cuda
