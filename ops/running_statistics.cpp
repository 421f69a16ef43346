#include "ops/running_statistics.h"

#include "core/parallel.h"
#include "ops/formulas.h"

namespace lacuna {

void follow(const Tensor& running, const Tensor& value, double momentum, double factor) {
  expect(running.dtype() == DType::f32 && value.dtype() == DType::f32 && running.count() == value.count(),
         "a running statistic expects f32 {}, got {} {}", running.shape(), name_of(value.dtype()), value.shape());
  launch(running.device(), [&] {
    const formula::Follow follow_batch{static_cast<float>(momentum), static_cast<float>(factor)};
    auto* const r = running.data<float>();
    map(running.count(), follow_batch, r, r, value.data<float>());
  });
  running.bump_version();
}

void increment(const Tensor& counter) {
  launch(counter.device(), [&] { ++*counter.data<std::int64_t>(); });
  counter.bump_version();
}

}  // namespace lacuna
