// Resampling of images, bit for bit as Pillow does it (libImaging/Resample.c): a filter, widened when the image shrinks,
// with weights in fixed point; columns first, then rows, rounded to u8 between.
#pragma once

#include "core/tensor.h"

#include <cstdint>
#include <vector>

namespace lacuna {

enum class ResizeFilter : std::uint8_t {
  bilinear,  // a triangle
  bicubic    // Keys' cubic convolution with a = −1/2
};

/// The source positions and weights that make up each position of a resampled axis.
class ResizeAxis {
 public:
  /// An axis of `source` positions as one of `target`.
  ResizeAxis(std::int64_t source, std::int64_t target, ResizeFilter filter);

  std::int64_t source() const { return source_; }
  std::int64_t target() const { return static_cast<std::int64_t>(first_.size()); }

  /// Resamples the middle axis: `in` is [outer, source, inner], `out` [outer, target, inner].
  void apply(const std::uint8_t* in, std::int64_t outer, std::int64_t inner, std::uint8_t* out) const;

 private:
  std::int64_t source_;
  std::int64_t taps_;                  // weights for each position: the largest count
  std::vector<std::int64_t> first_;    // [target]: the first source position
  std::vector<std::int64_t> count_;    // [target]: number of source positions
  std::vector<std::int32_t> weights_;  // [target, taps]
};

/// Resizes `in` u8 [rows.source(), columns.source(), channels] into `out` u8 [rows.target(), columns.target(),
/// channels]; `between` u8 [rows.source(), columns.target(), channels] is scratch memory.
void resize(const ResizeAxis& rows, const ResizeAxis& columns, const Tensor& in, const Tensor& between,
            const Tensor& out);

}  // namespace lacuna
