// Sums and differences of gradients.
#pragma once

#include "core/random.h"
#include "core/tensor.h"

#include <cstdint>
#include <vector>

namespace lacuna {

/// a + b. Writes into an input that is the only reference to its memory, if any.
Tensor sum(Tensor a, Tensor b);
/// a − b. Writes into a if it is the only reference to its memory.
Tensor difference(Tensor a, const Tensor& b);
/// Σ (a − b)², or Σ a² without b; 0 on `meta`.
double squared_difference(const Tensor& a, const Tensor& b);
/// Squared differences of each of `rows` equal parts of consecutive elements: [rows].
std::vector<double> squared_differences(const Tensor& a, const Tensor& b, std::int64_t rows);
/// a with a random sign for each element.
Tensor with_random_signs(const Tensor& a, const RandomStream& stream);

}  // namespace lacuna
