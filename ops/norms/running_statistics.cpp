#include "ops/norms/running_statistics.h"

#include "core/parallel.h"
#include "ops/formulas.h"
#include "ops/norms/running_statistics_kernels.h"

namespace lacuna {
namespace {

const RegisterKernel cpu_update{ema_update_elements, DeviceKind::cpu,
                                [](float momentum, float factor, const Tensor& value, const Tensor& running) {
                                  with_compute_type(running.dtype(), [&]<class T>(Type<T>) {
                                    T* const r = running.data<T>();
                                    map(running.count(), formula::Follow{momentum, factor}, r, r, value.data<T>());
                                  });
                                }};
const RegisterKernel cpu_increment{increment_counter, DeviceKind::cpu,
                                   [](const Tensor& counter) { ++*counter.data<std::int64_t>(); }};

}  // namespace

void ema_update(const Tensor& running, const Tensor& value, double momentum, double factor) {
  expect(running.dtype() == compute_type(running.dtype()) && value.dtype() == running.dtype() &&
             running.count() == value.count(),
         "ema_update expects {} {}, got {} {}", name_of(running.dtype()), running.shape(), name_of(value.dtype()),
         value.shape());
  ema_update_elements(running.device(), static_cast<float>(momentum), static_cast<float>(factor), value, running);
  running.bump_version();
}

void increment(const Tensor& counter) {
  increment_counter(counter.device(), counter);
  counter.bump_version();
}

}  // namespace lacuna
