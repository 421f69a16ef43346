#include "ops/losses/class_sums.h"

#include "core/math.h"
#include "core/tensor.h"
#include "ops/kernels/rowwise.h"
#include "ops/losses/class_formulas.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lacuna {
namespace {

/// The rows of [4, n] by name.
template <class C>
struct Sums {
  explicit Sums(const Tensor& sums)
      : largest(at(sums, ClassSum::largest)),
        exponentials(at(sums, ClassSum::exponentials)),
        logits(at(sums, ClassSum::logits)),
        of_label(at(sums, ClassSum::of_label)) {}
  static C* at(const Tensor& sums, ClassSum row) {
    return sums.data<C>() + static_cast<std::int64_t>(row) * sums.shape().back();
  }
  C *largest, *exponentials, *logits, *of_label;  // [n] each
};

/// Σ e^(z - largest) over z [n].
template <class C>
C sum_of_exponentials(std::int64_t n, C largest, const C* z) {
  C sum{};
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += math::exp(z[i] - largest);
  return sum;
}
/// The same, and z becomes e^(z - largest) · (derivative of a soft cap of 1 / bound; 0: there is none).
template <class C>
[[gnu::noinline]] C make_exponentials(std::int64_t n, C largest, C bound, C* z) {
  C sum{};
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) {
    const C e = math::exp(z[i] - largest);
    sum += e;
    z[i] = formula::slope_of_cap(bound, z[i]) * e;
  }
  return sum;
}

template <class C>
void absorb(const ClassTargets& targets, std::int64_t first, bool gradient, const Tensor& labels, const Tensor& logits,
            const Tensor& sums, const Tensor& running) {
  const std::int64_t n = logits.shape().back(), width = running.defined() ? running.shape().back() : 0;
  const C bound = formula::bound_of_cap<C>(targets.soft_cap);
  const auto* const label = labels.data<const std::int64_t>();
  C* const z = logits.data<C>();
  C* const before = running.defined() ? running.data<C>() : nullptr;
  const Sums<C> of(sums);
  parallel_for(labels.count(), serial_rows(n), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      C* const in = z + row * n;
      if (label[row] == targets.ignored) {
        if (gradient) std::fill_n(in, n, C(0));
        continue;
      }
      if (label[row] >= first && label[row] < first + n) of.of_label[row] = in[label[row] - first];
      if (targets.label_smoothing != 0)
        of.logits[row] += sum_of(
            n, [](const auto& v) { return v; }, in);
      const C largest = std::max(of.largest[row], max_of(n, in)), keep = std::exp(of.largest[row] - largest);
      of.largest[row] = largest;
      of.exponentials[row] = keep * of.exponentials[row] + (gradient ? make_exponentials(n, largest, bound, in)
                                                                     : sum_of_exponentials(n, largest, in));
      if (before != nullptr && keep != 1)
        for (std::int64_t i = 0; i < width; ++i) before[row * width + i] *= keep;
    }
  });
}

const RegisterKernel cpu_absorb{absorb_classes, DeviceKind::cpu,
                                [](const ClassTargets& targets, std::int64_t first, bool gradient, const Tensor& labels,
                                   const Tensor& logits, const Tensor& sums, const Tensor& running) {
                                  with_compute_type(logits.dtype(), [&]<class C>(Type<C>) {
                                    absorb<C>(targets, first, gradient, labels, logits, sums, running);
                                  });
                                }};

const RegisterKernel cpu_label_rows{
    take_label_rows, DeviceKind::cpu,
    [](std::int64_t first, const Tensor& labels, const Tensor& weight, const Tensor& rows) {
      const auto* const label = labels.data<const std::int64_t>();
      for (std::int64_t row = 0; row < labels.count(); ++row) {
        const std::int64_t at = label[row] - first;
        if (at >= 0 && at < weight.shape()[0]) rows.row_range(row, row + 1).copy_from(weight.row_range(at, at + 1));
      }
    }};

const RegisterKernel cpu_losses{
    add_class_losses, DeviceKind::cpu,
    [](const ClassTargets& targets, const Tensor& labels, const Tensor& sums, const Tensor& sum) {
      with_compute_type(sums.dtype(), [&]<class C>(Type<C>) {
        const auto* const label = labels.data<const std::int64_t>();
        const Sums<C> of(sums);
        for (std::int64_t row = 0; row < labels.count(); ++row)
          if (label[row] != targets.ignored)
            *sum.data<double>() += formula::class_loss(targets.label_smoothing, targets.classes, of.largest[row],
                                                       of.exponentials[row], of.logits[row], of.of_label[row]);
      });
    }};

template <class C, class T>
void finish(const ClassTargets& targets, C scale, const Tensor& labels, const Tensor& sums, const Tensor& running,
            const Tensor& of_labels, const Tensor& to) {
  const std::int64_t width = to.shape().back();
  const C bound = formula::bound_of_cap<C>(targets.soft_cap);
  const auto* const label = labels.data<const std::int64_t>();
  const C *const all = running.data<const C>(), *const own = of_labels.data<const C>();  // [n, width] each
  T* const out = to.data<T>();                                                           // [n, width]
  const Sums<C> of(sums);
  parallel_for(labels.count(), serial_rows(width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const bool counts = label[row] != targets.ignored;
      const C of_all = scale / of.exponentials[row], of_own = scale * formula::slope_of_cap(bound, of.of_label[row]);
      for (std::int64_t i = row * width; i < (row + 1) * width; ++i)
        out[i] = static_cast<T>(counts ? of_all * all[i] - of_own * own[i] : C(0));
    }
  });
}

const RegisterKernel cpu_gradient{
    class_gradient, DeviceKind::cpu,
    [](const ClassTargets& targets, const Tensor& scale, const Tensor& labels, const Tensor& sums,
       const Tensor& running, const Tensor& of_labels, const Tensor& to) {
      with_float_type(to.dtype(), [&]<class T>(Type<T>) {
        using C = Compute<T>;
        finish<C, T>(targets, *scale.data<const C>(), labels, sums, running, of_labels, to);
      });
    }};

}  // namespace
}  // namespace lacuna
