#include "autograd/accumulate.h"

#include "autograd/accumulate_kernels.h"
#include "core/parallel.h"
#include "ops/arithmetic/arithmetic_kernels.h"

#include <algorithm>
#include <numeric>

namespace lacuna {
namespace {

/// Σ (p − q)² from `begin` to `end`; `q` may be null.
template <class T>
double sum_of_squares(const T* p, const T* q, std::int64_t begin, std::int64_t end) {
  double sum = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    const double d = static_cast<double>(to_compute(p[i])) - (q == nullptr ? 0 : static_cast<double>(to_compute(q[i])));
    sum += d * d;
  }
  return sum;
}

template <class T>
void draw_signs_on_cpu(const Tensor& a, const RandomStream& stream, const Tensor& out) {
  constexpr std::int64_t at_once = 128;  // signs per draw
  const std::int64_t blocks = (a.count() + at_once - 1) / at_once;
  const T* const p = a.data<const T>();
  T* const q = out.data<T>();
  parallel_tasks(blocks, [&](std::int64_t block, std::int64_t) {
    const std::array<std::uint32_t, 4> bits = stream.draw(static_cast<std::uint64_t>(block));
    const std::int64_t begin = block * at_once, end = std::min(begin + at_once, a.count());
    for (std::int64_t i = begin; i < end; ++i)
      q[i] = (bits[static_cast<std::size_t>(i - begin) / 32] >> (i - begin) % 32 & 1) != 0
                 ? static_cast<T>(-to_compute(p[i]))
                 : p[i];
  });
}

const RegisterKernel cpu_subtract{
    subtract_elements, DeviceKind::cpu, [](const Tensor& a, const Tensor& b, const Tensor& out) {
      with_float_type(a.dtype(), [&]<class T>(Type<T>) {
        map(
            a.count(), [](auto x, auto y) { return x - y; }, out.data<T>(), a.data<const T>(), b.data<const T>());
      });
    }};
const RegisterKernel cpu_squared_differences{
    sum_squared_differences, DeviceKind::cpu,
    [](const Tensor& a, const Tensor& b, std::span<const std::int64_t> bounds, std::span<double> sums) {
      with_float_type(a.dtype(), [&]<class T>(Type<T>) {
        const T *const p = a.data<const T>(), *const q = b.defined() ? b.data<const T>() : nullptr;
        parallel_tasks(std::ssize(sums), [&](std::int64_t index, std::int64_t) {
          const auto i = static_cast<std::size_t>(index);
          sums[i] = sum_of_squares(p, q, bounds[i], bounds[i + 1]);
        });
      });
    }};
const RegisterKernel cpu_draw_signs{
    draw_signs, DeviceKind::cpu, [](const Tensor& a, const RandomStream& stream, const Tensor& out) {
      with_float_type(a.dtype(), [&]<class T>(Type<T>) { draw_signs_on_cpu<T>(a, stream, out); });
    }};

/// The squared differences of `parts` parts of consecutive elements; zeros on `meta`.
std::vector<double> squared_differences_of_parts(const Tensor& a, const Tensor& b, std::int64_t parts) {
  std::vector<double> sums(static_cast<std::size_t>(parts));
  std::vector<std::int64_t> bounds(sums.size() + 1);
  for (std::size_t i = 0; i < bounds.size(); ++i) bounds[i] = static_cast<std::int64_t>(i) * a.count() / parts;
  sum_squared_differences(a.device(), a, b, bounds, sums);
  return sums;
}

}  // namespace

Tensor sum(Tensor a, Tensor b) {
  expect(a.shape() == b.shape() && a.dtype() == b.dtype(), "gradients of one tensor differ: {} {} and {} {}", a.shape(),
         name_of(a.dtype()), b.shape(), name_of(b.dtype()));
  const Tensor out = a.unique() ? a : reuse_or_empty(b, b.shape(), b.dtype());
  add_elements(out.device(), a, b, out);
  return out;
}

Tensor difference(Tensor a, const Tensor& b) {
  const Tensor out = reuse_or_empty(a, a.shape(), a.dtype());
  subtract_elements(out.device(), a, b, out);
  return out;
}

double squared_difference(const Tensor& a, const Tensor& b) {
  constexpr std::int64_t blocks_on_cuda = 528;
  const std::int64_t parts = a.device().kind == DeviceKind::cuda ? blocks_on_cuda : threads();
  const std::vector<double> sums = squared_differences_of_parts(a, b, parts);
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

std::vector<double> squared_differences(const Tensor& a, const Tensor& b, std::int64_t rows) {
  return squared_differences_of_parts(a, b, rows);
}

Tensor with_random_signs(const Tensor& a, const RandomStream& stream) {
  const Tensor out = Tensor::empty(a.shape(), a.dtype(), a.device());
  draw_signs(out.device(), a, stream, out);
  return out;
}

}  // namespace lacuna
