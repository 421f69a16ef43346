#include "ops/losses/loss.h"

#include "core/math.h"
#include "ops/kernels/rowwise.h"
#include "ops/losses/loss_kernels.h"
#include "ops/operand.h"

#include <algorithm>
#include <cmath>

namespace lacuna {
namespace {

const RegisterOp<CrossEntropy> cross_entropy;

bool are_labels(const Tensor& targets) { return targets.dtype() == DType::i64; }

/// How label smoothing turns the target q of a class into kept · q + uniform.
template <class C>
struct Smoothing {
  C kept, uniform;
  Smoothing(double smoothing, std::int64_t classes)
      : kept(static_cast<C>(1 - smoothing)), uniform(static_cast<C>(smoothing / static_cast<double>(classes))) {}
};

/// The loss of one row of logits z [C] whose log Σ e^z is known.
template <class C>
C row_loss(std::int64_t n, const C* z, C log_sum, std::int64_t label, const Smoothing<C>& smoothing) {
  const C of_label = smoothing.kept * (log_sum - z[label]);
  if (smoothing.uniform == 0) return of_label;  // an impossible class, z = -infinity, costs nothing then
  return of_label + smoothing.uniform * sum_of(
                                            n, [log_sum](const auto& v) { return log_sum - v; }, z);
}
template <class C>
C row_loss(std::int64_t n, const C* z, C log_sum, const C* q, const Smoothing<C>& smoothing) {
  const auto term = [&](const auto& target, const auto& v) {
    return (smoothing.kept * target + smoothing.uniform) * (log_sum - v);
  };
  return sum_of(n, term, q, z);
}

/// dz = scale · (Σ targets · softmax(z) - targets) for one row.
template <class C, class T>
void row_gradient(std::int64_t n, const C* z, C log_sum, std::int64_t label, const Smoothing<C>& smoothing, C scale,
                  T* dz) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) dz[i] = static_cast<T>(scale * (math::exp(z[i] - log_sum) - smoothing.uniform));
  dz[label] = static_cast<T>(scale * (math::exp(z[label] - log_sum) - smoothing.uniform - smoothing.kept));
}
template <class C, class T>
void row_gradient(std::int64_t n, const C* z, C log_sum, const C* q, const Smoothing<C>& smoothing, C scale, T* dz) {
  const C sum = sum_of(
      n, [&](const auto& target) { return smoothing.kept * target + smoothing.uniform; }, q);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i)
    dz[i] = static_cast<T>(scale * (sum * math::exp(z[i] - log_sum) - (smoothing.kept * q[i] + smoothing.uniform)));
}

/// Calls `f` with a function from a row's number to its target: its label, or its probabilities [C].
template <class C, class F>
void with_targets(const Tensor& targets, const F& f) {
  if (are_labels(targets)) {
    f([label = targets.data<std::int64_t>()](std::int64_t row) { return label[row]; });
  } else {
    f([q = targets.data<C>(), n = targets.shape().back()](std::int64_t row) -> const C* { return q + row * n; });
  }
}

void check_labels_on_cpu(const Tensor& labels, std::int64_t classes) {
  const auto* const label = labels.data<std::int64_t>();
  for (std::int64_t i = 0; i < labels.count(); ++i)
    if (label[i] < 0 || label[i] >= classes)
      reject("the target of row {} is {}: with {} classes it has to lie in 0 to {}", i, label[i], classes, classes - 1);
}

template <class T>
void forward_on_cpu(double label_smoothing, const Tensor& logits, const Tensor& targets, const Tensor& log_sums,
                    const Tensor& losses, const Tensor& loss) {
  using C = Compute<T>;
  const std::int64_t rows = logits.rows(), n = logits.shape().back();
  const Smoothing<C> smoothing(label_smoothing, n);
  const T* const z = logits.data<T>();  // [rows, n]
  C *const log_sum_of = log_sums.data<C>(), *const loss_of = losses.data<C>();
  with_targets<C>(targets, [&](const auto& target_of) {
    parallel_for(rows, serial_rows(n), [&](std::int64_t begin, std::int64_t end) {
      std::vector<C> scratch = row_scratch<T>(n);
      for (std::int64_t row = begin; row < end; ++row) {
        const C* const in = in_compute_type(z + row * n, n, scratch.data());
        const C largest = max_of(n, in);
        C sum{};
#pragma omp simd reduction(+ : sum)
        for (std::int64_t i = 0; i < n; ++i) sum += math::exp(in[i] - largest);
        const C log_sum = largest + std::log(sum);
        log_sum_of[row] = log_sum;
        loss_of[row] = row_loss(n, in, log_sum, target_of(row), smoothing);
      }
    });
  });
  double total = 0;
  for (std::int64_t row = 0; row < rows; ++row) total += static_cast<double>(loss_of[row]);
  *loss.data<C>() = static_cast<C>(total / static_cast<double>(rows));
}

template <class T>
void backward_on_cpu(double label_smoothing, const Tensor& logits, const Tensor& targets, const Tensor& log_sums,
                     const Tensor& dy, const Tensor& dz) {
  using C = Compute<T>;
  const std::int64_t rows = logits.rows(), n = logits.shape().back();
  const Smoothing<C> smoothing(label_smoothing, n);
  const C scale = *dy.data<C>() / static_cast<C>(rows);
  const T* const z = logits.data<T>();  // [rows, n]
  const C* const log_sum_of = log_sums.data<C>();
  T* const gradient = dz.data<T>();  // [rows, n]
  with_targets<C>(targets, [&](const auto& target_of) {
    parallel_for(rows, serial_rows(n), [&](std::int64_t begin, std::int64_t end) {
      std::vector<C> scratch = row_scratch<T>(n);
      for (std::int64_t row = begin; row < end; ++row)
        row_gradient(n, in_compute_type(z + row * n, n, scratch.data()), log_sum_of[row], target_of(row), smoothing,
                     scale, gradient + row * n);
    });
  });
}

const RegisterKernel cpu_check_labels{check_labels, DeviceKind::cpu, check_labels_on_cpu};
const RegisterKernel cpu_forward{cross_entropy_forward, DeviceKind::cpu,
                                 [](double label_smoothing, const Tensor& logits, const Tensor& targets,
                                    const Tensor& log_sums, const Tensor& losses, const Tensor& loss) {
                                   with_float_type(logits.dtype(), [&]<class T>(Type<T>) {
                                     forward_on_cpu<T>(label_smoothing, logits, targets, log_sums, losses, loss);
                                   });
                                 }};
const RegisterKernel cpu_backward{cross_entropy_backward, DeviceKind::cpu,
                                  [](double label_smoothing, const Tensor& logits, const Tensor& targets,
                                     const Tensor& log_sums, const Tensor& dy, const Tensor& dz) {
                                    with_float_type(logits.dtype(), [&]<class T>(Type<T>) {
                                      backward_on_cpu<T>(label_smoothing, logits, targets, log_sums, dy, dz);
                                    });
                                  }};

}  // namespace

Tensor CrossEntropy::forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const {
  const Tensor& z = inputs[logits];
  const Tensor& target = inputs[targets];
  const DType compute = compute_type(z.dtype());
  expect(z.shape().rank() == 2 && z.shape().back() > 0, "cross_entropy expects logits [N, C], got {}", z.shape());
  expect(label_smoothing >= 0 && label_smoothing <= 1, "cross_entropy expects a label smoothing in [0, 1], got {}",
         label_smoothing);
  if (are_labels(target)) {
    expect(target.shape() == Shape{z.rows()}, "cross_entropy of {} expects targets {} in i64, got {}", z.shape(),
           Shape{z.rows()}, target.shape());
    check_labels(target.device(), target, z.shape().back());
  } else {
    expect(target.shape() == z.shape() && target.dtype() == compute,
           "cross_entropy of {} {} expects labels in i64 or probabilities {} in {}, got {} in {}", name_of(z.dtype()),
           z.shape(), z.shape(), name_of(compute), target.shape(), name_of(target.dtype()));
  }
  Tensor loss = Tensor::empty({}, compute, z.device());
  extra_outputs = {Tensor::empty({z.rows(), 1}, compute, z.device())};
  const Tensor losses = Tensor::empty({z.rows()}, compute, z.device(), Purpose::workspace);
  cross_entropy_forward(z.device(), label_smoothing, z, target, extra_outputs[log_sum_exp], losses, loss);
  return loss;
}

void CrossEntropy::backward(Tensor dy, const Saved<CrossEntropy>& saved, Grads& grads) const {
  const Tensor z = saved.get<input(logits)>().whole(), target = saved.get<input(targets)>().whole();
  const Tensor log_sums = saved.get<extra_output(log_sum_exp)>().whole();
  grads[logits] = empty_like(z);
  cross_entropy_backward(z.device(), label_smoothing, z, target, log_sums, dy, grads[logits]);
}

}  // namespace lacuna
