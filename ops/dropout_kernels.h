// Kernels of ops/dropout.h.
#pragma once

#include "core/kernel.h"
#include "core/random.h"

namespace lacuna {

class Tensor;

/// How an element is dropped: with probability p, and divided by 1 - p otherwise.
struct DropRate {
  std::uint32_t dropped_below;  // draws below this drop: p in units of 2^-32
  double scale;                 // 1 / (1 - p)
};

/// y[i] = x[i] · scale, or 0 if draw first + i of `stream` drops. x, y: [n], one floating type; y may be x.
inline constinit Kernel<void(const DropRate& rate, const RandomStream& stream, std::int64_t first, const Tensor& x,
                             const Tensor& y)>
    drop_elements{"dropout"};

/// The same for whole samples: row r of x belongs to sample (first_row + r) / rows_per_sample, and that sample's draw
/// decides. x, y: [rows, C].
inline constinit Kernel<void(const DropRate& rate, const RandomStream& stream, std::int64_t first_row,
                             std::int64_t rows_per_sample, const Tensor& x, const Tensor& y)>
    drop_samples{"drop_path"};

}  // namespace lacuna
