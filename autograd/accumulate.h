// Sums and differences of gradients.
#pragma once

#include "core/random.h"
#include "core/tensor.h"

#include <cstdint>
#include <vector>

namespace lacuna {

/// a + b, in place of an input whose memory nobody else sees.
Tensor sum(Tensor a, Tensor b);
/// a − b, in place of a if nobody else sees its memory.
Tensor difference(Tensor a, const Tensor& b);
/// Σ (a − b)², or Σ a² without b; 0 on `meta`.
double squared_difference(const Tensor& a, const Tensor& b);
/// The same for each of `rows` equal parts of consecutive elements: [rows].
std::vector<double> squared_differences(const Tensor& a, const Tensor& b, std::int64_t rows);
/// a with a random sign for each element.
Tensor with_random_signs(const Tensor& a, const RandomStream& stream);

}  // namespace lacuna
