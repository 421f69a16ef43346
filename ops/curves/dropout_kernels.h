// Kernels of ops/curves/dropout.h.
#pragma once

#include "core/kernel.h"
#include "core/random.h"

namespace lacuna {

class Sequences;
class Tensor;

/// How an element is dropped: with probability p, and divided by 1 - p otherwise.
struct DropRate {
  std::uint32_t dropped_below;  // draws below this drop: p in units of 2^-32
  double scale;                 // 1 / (1 - p)
};

/// y = x · scale, or 0; then + residual, if it is defined. x, residual, y: elements [first, first + n) of a tensor with
/// `sample_size` elements per sample, of one floating type, to which x · scale is rounded before the sum (a CPU may
/// round f32 once); y may be x. Element e of sample s is dropped by draw e of the sample (RandomStream::draw_of_sample).
/// With `sequences` (may be null) samples are sequences of rows, each with `sample_size` elements.
inline constinit Kernel<void(const DropRate& rate, const RandomStream& stream, std::int64_t first,
                             std::int64_t sample_size, const Sequences* sequences, const Tensor& x,
                             const Tensor& residual, const Tensor& y)>
    drop_elements{"dropout"};

/// The same for whole samples: sample s is dropped by draw 0 of the sample.
inline constinit Kernel<void(const DropRate& rate, const RandomStream& stream, std::int64_t first,
                             std::int64_t sample_size, const Tensor& x, const Tensor& residual, const Tensor& y)>
    drop_samples{"drop_path"};

}  // namespace lacuna
