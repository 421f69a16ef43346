// The kernels that Adafactor has beside its rules. A parameter of two axes or more is `count` matrices [R, C], its last
// two axes.
#pragma once

#include "core/kernel.h"

namespace lacuna {

class Tensor;
struct AdafactorSettings;

struct FactoredMoments {
  const Tensor& row;     // f32 [count, R]: running mean of the squares' means over each row
  const Tensor& column;  // f32 [count, C]: over each column
  const Tensor& means;   // f32 [count]: mean of `row`
};
/// The moments after the gradient [count, R, C], f32. step: i64 [], of this update. Nothing happens if `finite`, i32
/// [], is 0; it may be undefined.
inline constinit Kernel<void(const AdafactorSettings& settings, const Tensor& gradient, const Tensor& step,
                             const Tensor& finite, const FactoredMoments& moments)>
    update_factored_moments{"factored moments"};

/// gradient = gradient / √(row · column / mean).
inline constinit Kernel<void(const FactoredMoments& moments, const Tensor& gradient)> divide_by_factored_moments{
    "division by factored moments"};

}  // namespace lacuna
