#include "optim/clip.h"

#include "core/parallel.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace lacuna {

double sum_of_squares(const Tensor& x) {
  constexpr std::int64_t run = 1 << 16;
  constexpr std::int64_t runs_at_once = 64;
  double total = 0;
  launch(x.device(), [&] {
    with_float_type(x.dtype(), [&]<class T>(Type<T>) {
      const T* const values = x.data<T>();  // [count]
      for (std::int64_t first = 0; first < x.count(); first += run * runs_at_once) {
        const std::int64_t runs = std::min(runs_at_once, (x.count() - first + run - 1) / run);
        std::array<double, runs_at_once> partial{};
        parallel_tasks(runs, [&](std::int64_t i, int) {
          const std::int64_t begin = first + i * run, end = std::min(begin + run, x.count());
          double sum = 0;
#pragma omp simd reduction(+ : sum)
          for (std::int64_t k = begin; k < end; ++k) {
            const auto value = static_cast<double>(to_compute(values[k]));
            sum += value * value;
          }
          partial[static_cast<std::size_t>(i)] = sum;
        });
        for (const double sum : partial) total += sum;
      }
    });
  });
  return total;
}

double clip_factor(double norm, double max_norm) { return std::min(max_norm / (norm + 1e-6), 1.0); }

}  // namespace lacuna
