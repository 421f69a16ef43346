// Kernels of ops/shapes/slicing.h.
#pragma once

#include "core/kernel.h"

#include <cstdint>

namespace lacuna {

class Tensor;

/// Entries [begin, begin + extent) of an axis of a tensor: `outer` stretches of `length` elements, `stride` apart, the
/// first of which begins at element `first`.
struct Band {
  std::int64_t outer, length, stride, first;  // elements
};

/// Copies `packed` [outer · length] into the band of `whole`. Any type.
inline constinit Kernel<void(const Tensor& whole, const Band& band, const Tensor& packed)> fill_band{"concat"};

/// Copies the band of `whole` into `packed`. Any type.
inline constinit Kernel<void(const Tensor& whole, const Band& band, const Tensor& packed)> take_band{"slice"};

/// Adds `packed` to the band of `whole`. One floating type.
inline constinit Kernel<void(const Tensor& whole, const Band& band, const Tensor& packed)> add_to_band{
    "slice backward"};

/// Copies `x` to each entry of the first axis of y. x: [1, ...] in y's compute type or in its type; y: [count, ...].
inline constinit Kernel<void(const Tensor& x, const Tensor& y)> repeat_entry{"expand"};

}  // namespace lacuna
