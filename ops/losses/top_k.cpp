#include "ops/losses/top_k.h"

#include <algorithm>

namespace lacuna {
namespace {

template <class T>
std::int64_t largest_at(const T* values, std::int64_t count) {
  std::int64_t at = 0;
  for (std::int64_t i = 1; i < count; ++i)
    if (to_compute(values[i]) > to_compute(values[at])) at = i;
  return at;
}

std::int64_t target_of(const Tensor& targets, std::int64_t row) {
  if (targets.dtype() == DType::i64) return targets.data<std::int64_t>()[row];
  const std::int64_t classes = targets.shape().back();
  if (targets.dtype() == DType::f64) return largest_at(targets.data<double>() + row * classes, classes);
  return largest_at(targets.data<float>() + row * classes, classes);
}

const RegisterKernel on_cpu{
    count_top_k, DeviceKind::cpu,
    [](const Tensor& logits, const Tensor& targets, std::span<const std::int64_t> k, const Tensor& counts) {
      const std::int64_t classes = logits.shape().back();
      double* const sums = counts.data<double>();
      with_float_type(logits.dtype(), [&]<class T>(Type<T>) {
        for (std::int64_t row = 0; row < logits.rows(); ++row) {
          const T* const values = logits.data<T>() + row * classes;
          const std::int64_t target = target_of(targets, row);
          if (target < 0 || target >= classes) continue;
          const auto own = to_compute(values[target]);
          std::int64_t larger = 0;
          for (std::int64_t i = 0; i < classes; ++i) {
            const auto value = to_compute(values[i]);
            // A logit that is not a number is larger than any target's: such a row is never correct.
            larger += !(value < own) && i != target && (value != own || i < target) ? 1 : 0;
          }
          for (std::size_t i = 0; i < k.size(); ++i) sums[i] += larger < k[i] ? 1 : 0;
        }
      });
    }};

const RegisterKernel largest_on_cpu{find_largest, DeviceKind::cpu, [](const Tensor& values, const Tensor& places) {
                                      const std::int64_t count = values.shape().back();
                                      with_float_type(values.dtype(), [&]<class T>(Type<T>) {
                                        for (std::int64_t row = 0; row < values.rows(); ++row)
                                          places.data<std::int64_t>()[row] =
                                              largest_at(values.data<T>() + row * count, count);
                                      });
                                    }};

}  // namespace
}  // namespace lacuna
