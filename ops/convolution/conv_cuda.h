// Launchers of ops/convolution/conv.cu.
#pragma once

#include "core/number.h"
#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

/// Along one axis of a grid of windows: tap t of window i is the place first + i · step + t · direction of an image of
/// `extent` places.
struct WindowAxis {
  std::int64_t extent, windows, taps, first, step, direction;
};

/// Copies what windows cover into rows, zeros outside of the image. Rows are the windows [first_row, first_row + rows)
/// of all images, in order.
struct GatherRows {
  const void* images = nullptr;  // [N, down.extent, across.extent, channels]
  void* to = nullptr;            // [rows, groups, down.taps, across.taps, channels / groups]
  WindowAxis down, across;
  std::int64_t channels, groups;
  std::int64_t first_row = 0, rows = 0;
  std::int64_t row_elements() const { return down.taps * across.taps * channels; }
};
/// Elements of `size` bytes.
void gather_rows(Stream stream, std::int64_t size, const GatherRows& what);

/// The pixels [first_row, first_row + rows) of a grid of some pixels of images: every `step`-th from `first` on.
struct PixelAxis {
  std::int64_t extent, pixels, first, step;
};
/// Writes rows to such pixels, or adds them.
struct PlaceRows {
  const void* from;  // [rows, channels] of `type`; null: zeros
  void* images;      // [N, down.extent, across.extent, channels] of `type`
  PixelAxis down, across;
  std::int64_t channels;
  std::int64_t first_row, rows;
  bool add;
};
void place_rows(Stream stream, DType type, const PlaceRows& what);

/// The taps of a kernel that meet one image: every `step`-th from `first` on.
struct TapAxis {
  std::int64_t extent, taps, first, step;
};
/// Weights [outputs, channels / groups, down.extent, across.extent] as matrices of `type`: of the outputs by what their
/// windows cover, [outputs, down.taps, across.taps, channels / groups], or by inputs, [groups, down.taps, across.taps,
/// outputs / groups, channels / groups].
struct ArrangeWeights {
  const float* weights;
  void* to;
  TapAxis down, across;
  std::int64_t outputs, channels, groups;
  bool by_inputs = false;
};
void arrange_weights(Stream stream, DType type, const ArrangeWeights& what);

/// The way back for gradients: weights (+)= matrix.
struct CollectWeights {
  const void* matrix;  // [outputs, taps, channels of a group] of `type`
  float* weights;      // [outputs, channels of a group, taps]
  std::int64_t outputs, taps, channels;
  bool add;
};
void collect_weights(Stream stream, DType type, const CollectWeights& what);

}  // namespace lacuna::cuda
