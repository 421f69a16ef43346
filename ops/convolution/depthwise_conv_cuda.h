// Launchers of ops/convolution/depthwise_conv.cu. Images are NHWC of `type`; weights, taps, sums and bias are f32.
#pragma once

#include "core/number.h"
#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

/// taps [count, channels] of weights [channels, count]; flipped: in descending order.
struct DepthwiseTaps {
  const float* weights;
  float* taps;
  std::int64_t channels, count;
  bool flipped;
};
void depthwise_taps(Stream stream, const DepthwiseTaps& what);

/// As DepthwiseShape.
struct DepthwiseExtents {
  std::int64_t images, height, width, channels, kernel, stride, spread, top, left, out_height, out_width;
};

/// y = bias + x * taps, or added to y.
struct DepthwiseForward {
  DepthwiseExtents of;
  const void* x;             // [images, height, width, channels]
  const float *taps, *bias;  // [kernel, kernel, channels], [channels]; bias may be null
  void* y;                   // [images, out_height, out_width, channels]
  bool add;
};
void depthwise_forward(Stream stream, DType type, const DepthwiseForward& what);

/// sums += dy * x. Image i of the call belongs to part (first + i) % parts, and is added after those before it.
struct DepthwiseSums {
  DepthwiseExtents of;
  const void *x, *dy;
  float* sums;  // [parts, kernel, kernel, channels]
  std::int64_t first, parts;
};
void depthwise_sums(Stream stream, DType type, const DepthwiseSums& what);

/// weights [channels, count] = Σ over the parts of sums [parts, count, channels], in order.
struct DepthwiseGradient {
  const float* sums;
  float* weights;
  std::int64_t parts, channels, count;
};
void depthwise_gradient(Stream stream, const DepthwiseGradient& what);

}  // namespace lacuna::cuda
