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
          // Several sums side by side: each addition waits for the one before it.
          std::array<double, 32> sums{};
          const auto add = [&](std::int64_t k, std::size_t lane) {
            const auto value = static_cast<double>(to_compute(values[k]));
            sums[lane] += value * value;
          };
          std::int64_t k = begin;
          for (; k + 32 <= end; k += 32)
            for (std::size_t lane = 0; lane < 32; ++lane) add(k + static_cast<std::int64_t>(lane), lane);
          for (; k < end; ++k) add(k, 0);
          double sum = 0;
          for (const double one : sums) sum += one;
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
