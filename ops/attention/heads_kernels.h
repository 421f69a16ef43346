// Kernels of ops/attention/heads.h.
#pragma once

#include "core/kernel.h"

#include <cstdint>

namespace lacuna {

class Tensor;

/// How the pieces [head_dim] of an op's output, in order, lie in its input. The output is [B, outer, inner, head_dim];
/// piece (b, o, i) begins at element first + b · image_stride + o · outer_stride + i · inner_stride of the input.
struct HeadPieces {
  std::int64_t outer, inner, head_dim;
  std::int64_t first, image_stride, outer_stride, inner_stride;  // elements
};

/// Copies pieces [first_piece, ...) of x to the whole of y. One floating type.
inline constinit Kernel<void(const HeadPieces& pieces, const Tensor& x, std::int64_t first_piece, const Tensor& y)>
    gather_heads{"split_heads or merge_heads"};

/// Copies the pieces dy to their places in dx, or adds them if `add`. One floating type.
inline constinit Kernel<void(const HeadPieces& pieces, const Tensor& dy, bool add, const Tensor& dx)> scatter_heads{
    "split_heads or merge_heads backward"};

}  // namespace lacuna
