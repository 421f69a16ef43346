#include "optim/clip.h"

#include "core/parallel.h"
#include "ops/arithmetic/factor.h"
#include "optim/formulas.h"
#include "optim/kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace lacuna {

double sum_of_squares(const Tensor& x) {
  constexpr std::int64_t run = 1 << 16;
  constexpr std::int64_t runs_at_once = 64;
  double total = 0;
  with_float_type(x.dtype(), [&]<class T>(Type<T>) {
    const T* const values = x.data<T>();  // [count]
    for (std::int64_t first = 0; first < x.count(); first += run * runs_at_once) {
      const std::int64_t runs = std::min(runs_at_once, (x.count() - first + run - 1) / run);
      std::array<double, runs_at_once> partial{};
      parallel_tasks(runs, [&](std::int64_t i, int) {
        const std::int64_t begin = first + i * run, end = std::min(begin + run, x.count());
        // Independent sums, since each addition waits for the one before it.
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
  return total;
}

namespace {

void note_finite(double value, const Tensor& finite) {
  if (!std::isfinite(value)) *finite.data<std::int32_t>() = 0;
}

const RegisterKernel cpu_measure{
    measure_gradients, DeviceKind::cpu,
    [](std::span<const MeasuredGradient> gradients, const Tensor& squares, const Tensor& finite) {
      for (const auto& [gradient, index] : gradients) {
        const double sum = sum_of_squares(gradient);
        squares.data<double>()[index] = sum;
        note_finite(sum, finite);
      }
    }};
const RegisterKernel cpu_clip{clip_gradients, DeviceKind::cpu,
                              [](const Tensor& squares, std::int64_t begin, std::int64_t end, double max_norm,
                                 const Tensor& scale, const Tensor& factor) {
                                const double* const square = squares.data<double>();
                                const double norm = std::sqrt(std::accumulate(square + begin, square + end, 0.0));
                                const double times =
                                    scale.defined() ? static_cast<double>(*scale.data<const float>()) : 1;
                                *factor.data<float>() = static_cast<float>(formula::clip_factor(norm, max_norm, times));
                              }};
const RegisterKernel cpu_add_loss{
    add_loss, DeviceKind::cpu, [](const Tensor& loss, const Factor& weight, const Tensor& total, const Tensor& finite) {
      double& sum = *total.data<double>();
      sum += loss.item() * weight.item();
      note_finite(sum, finite);
    }};
const RegisterKernel cpu_look{look_for_nonfinite, DeviceKind::cpu, [](const Tensor& values, const Tensor& finite) {
                                for (std::int64_t i = 0; i < values.count(); ++i)
                                  note_finite(values.data<const double>()[i], finite);
                              }};

}  // namespace

}  // namespace lacuna
