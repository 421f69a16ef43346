#include "ops/norms/l2_normalize.h"

#include "core/parallel.h"
#include "ops/operand.h"

#include <algorithm>
#include <cmath>

namespace lacuna {
namespace {

const RegisterOp<L2Normalize> l2_normalize;

/// Calls f(first element, 1 / max(‖x‖, least), whether the norm is below) for each row. A row is one sentence: the sums
/// are in double.
template <class T, class F>
void for_rows(const Tensor& x, const F& f) {
  constexpr double least = 1e-12;
  const std::int64_t width = x.shape().back();
  for (std::int64_t row = 0; row < x.rows(); ++row) {
    const T* const in = x.data<T>() + row * width;
    double sum = 0;
    for (std::int64_t j = 0; j < width; ++j) {
      const auto value = static_cast<double>(to_compute(in[j]));
      sum += value * value;
    }
    f(row * width, 1 / std::max(std::sqrt(sum), least), std::sqrt(sum) < least);
  }
}

const RegisterKernel forward_on_cpu{
    l2_normalize_forward, DeviceKind::cpu, [](const Tensor& x, const Tensor& y) {
      with_float_type(x.dtype(), [&]<class T>(Type<T>) {
        for_rows<T>(x, [&](std::int64_t first, double inverse, bool) {
          for (std::int64_t i = first; i < first + x.shape().back(); ++i)
            y.data<T>()[i] = static_cast<T>(to_compute(x.data<T>()[i]) * static_cast<Compute<T>>(inverse));
        });
      });
    }};
// dx = (dy − y · (y·dy)) / ‖x‖; dy / least where the norm is held at that
const RegisterKernel backward_on_cpu{
    l2_normalize_backward, DeviceKind::cpu, [](const Tensor& x, const Tensor& dy, const Tensor& dx) {
      with_float_type(x.dtype(), [&]<class T>(Type<T>) {
        for_rows<T>(x, [&](std::int64_t first, double inverse, bool held) {
          const T *const in = x.data<T>() + first, *const from = dy.data<T>() + first;
          double dot = 0;
          for (std::int64_t j = 0; !held && j < x.shape().back(); ++j)
            dot += static_cast<double>(to_compute(in[j])) * inverse * static_cast<double>(to_compute(from[j]));
          for (std::int64_t j = 0; j < x.shape().back(); ++j) {
            const double y = static_cast<double>(to_compute(in[j])) * inverse;
            const double gradient = (static_cast<double>(to_compute(from[j])) - y * dot) * inverse;
            dx.data<T>()[first + j] = static_cast<T>(static_cast<Compute<T>>(gradient));
          }
        });
      });
    }};

}  // namespace

Tensor L2Normalize::forward(std::span<const Tensor> inputs) const {
  Tensor y = empty_like(inputs[x]);
  l2_normalize_forward(y.device(), inputs[x], y);
  return y;
}

void L2Normalize::backward(const Tensor& dy, const Saved<L2Normalize>& saved, Grads& grads) const {
  const Tensor in = saved.get<input(x)>().whole();
  grads[x] = empty_like(in);
  l2_normalize_backward(in.device(), in, dy, grads[x]);
}

}  // namespace lacuna
