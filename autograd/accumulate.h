// Gradients that meet, and how they differ.
#pragma once

#include "core/random.h"
#include "core/tensor.h"

#include <cstdint>
#include <vector>

namespace lacuna {

/// a + b, written into whichever of the two nobody else sees.
Tensor sum(Tensor a, Tensor b);
/// a − b, in the place of a if nobody else sees it.
Tensor difference(Tensor a, const Tensor& b);
/// Σ (a − b)², or Σ a² without b; 0 on `meta`.
double squared_difference(const Tensor& a, const Tensor& b);
/// The same of `rows` equal parts, one after the other: [rows].
std::vector<double> squared_differences(const Tensor& a, const Tensor& b, std::int64_t rows);
/// a with a sign drawn for each element.
Tensor with_random_signs(const Tensor& a, const RandomStream& stream);

}  // namespace lacuna
