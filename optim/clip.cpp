#include "optim/clip.h"

#include "core/parallel.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace lacuna {
namespace {

/// Σ x², x [count]; runs of a fixed length are summed apart, so that the sum does not depend on the threads.
double sum_of_squares(const float* x, std::int64_t count) {
  constexpr std::int64_t run = 1 << 16;
  constexpr std::int64_t runs_at_once = 64;
  double total = 0;
  for (std::int64_t first = 0; first < count; first += run * runs_at_once) {
    const std::int64_t runs = std::min(runs_at_once, (count - first + run - 1) / run);
    std::array<double, runs_at_once> partial{};
    parallel_tasks(runs, [&](std::int64_t i, int) {
      const std::int64_t begin = first + i * run, end = std::min(begin + run, count);
      double sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t k = begin; k < end; ++k) sum += static_cast<double>(x[k]) * static_cast<double>(x[k]);
      partial[static_cast<std::size_t>(i)] = sum;
    });
    for (const double sum : partial) total += sum;
  }
  return total;
}

}  // namespace

double gradient_norm(std::span<Parameter* const> parameters) {
  double total = 0;
  for (const Parameter* parameter : parameters) {
    if (!parameter->trainable() || !parameter->grad().defined()) continue;
    const Tensor& gradient = parameter->grad();
    launch(gradient.device(), [&] { total += sum_of_squares(gradient.data<float>(), gradient.count()); });
  }
  return std::sqrt(total);
}

double clip_factor(double norm, double max_norm) { return std::min(max_norm / (norm + 1e-6), 1.0); }

}  // namespace lacuna
