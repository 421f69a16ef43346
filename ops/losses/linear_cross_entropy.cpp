#include "ops/losses/linear_cross_entropy.h"

#include "core/math.h"
#include "ops/kernels/rowwise.h"
#include "ops/operand.h"
#include "ops/products/gemm.h"
#include "ops/products/linear_kernels.h"

#include <algorithm>
#include <cmath>

namespace lacuna {
namespace {

const RegisterOp<LinearCrossEntropy> linear_cross_entropy;

std::int64_t counted_rows(const Tensor& labels, std::int64_t ignored) {
  const auto* const label = labels.data<std::int64_t>();
  return labels.count() - std::count(label, label + labels.count(), ignored);
}

template <class C>
C log_sum_of(std::int64_t n, const C* z) {
  const C largest = max_of(n, z);
  C sum{};
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += math::exp(z[i] - largest);
  return largest + std::log(sum);
}

template <class C>
void losses_on_cpu(double smoothing, std::int64_t ignored, const Tensor& logits, const Tensor& labels,
                   const Tensor& losses, const Tensor& sum) {
  const std::int64_t n = logits.shape().back();
  const auto kept = static_cast<C>(1 - smoothing), uniform = static_cast<C>(smoothing / static_cast<double>(n));
  const C* const z = logits.data<C>();
  const auto* const label = labels.data<std::int64_t>();
  C* const loss = losses.data<C>();
  parallel_for(labels.count(), serial_rows(n), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      loss[row] = C(0);
      if (label[row] == ignored) continue;
      const C* const in = z + row * n;
      const C log_sum = log_sum_of(n, in);
      loss[row] = kept * (log_sum - in[label[row]]);
      if (uniform != 0)
        loss[row] += uniform * sum_of(
                                   n, [log_sum](const auto& v) { return log_sum - v; }, in);
    }
  });
  for (std::int64_t row = 0; row < labels.count(); ++row) *sum.data<double>() += static_cast<double>(loss[row]);
}

template <class C>
void gradient_on_cpu(double smoothing, std::int64_t ignored, const Tensor& dy, const Tensor& labels,
                     const Tensor& all_labels, const Tensor& logits) {
  const std::int64_t n = logits.shape().back();
  const auto kept = static_cast<C>(1 - smoothing), uniform = static_cast<C>(smoothing / static_cast<double>(n));
  const C scale = *dy.data<C>() / static_cast<C>(std::max<std::int64_t>(1, counted_rows(all_labels, ignored)));
  C* const z = logits.data<C>();
  const auto* const label = labels.data<std::int64_t>();
  parallel_for(labels.count(), serial_rows(n), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      C* const in = z + row * n;
      if (label[row] == ignored) {
        std::fill_n(in, n, C(0));
        continue;
      }
      const C log_sum = log_sum_of(n, in);
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) in[i] = scale * (math::exp(in[i] - log_sum) - uniform);
      in[label[row]] -= scale * kept;
    }
  });
}

/// Calls f(Type<C>) with the compute type.
template <class F>
void with_type(const Tensor& tensor, const F& f) {
  if (tensor.dtype() == DType::f64)
    f(Type<double>{});
  else
    f(Type<float>{});
}

const RegisterKernel cpu_check{
    check_token_labels, DeviceKind::cpu, [](const Tensor& labels, std::int64_t classes, std::int64_t ignored) {
      const auto* const label = labels.data<std::int64_t>();
      for (std::int64_t i = 0; i < labels.count(); ++i)
        if ((label[i] < 0 || label[i] >= classes) && label[i] != ignored)
          reject("the label of token {} is {}: with {} classes it has to lie in 0 to {}, or be {} to be left out", i,
                 label[i], classes, classes - 1, ignored);
    }};
const RegisterKernel cpu_losses{
    linear_cross_entropy_loss, DeviceKind::cpu,
    [](double smoothing, std::int64_t ignored, const Tensor& logits, const Tensor& labels, const Tensor& losses,
       const Tensor& sum) {
      with_type(logits, [&]<class C>(Type<C>) { losses_on_cpu<C>(smoothing, ignored, logits, labels, losses, sum); });
    }};
const RegisterKernel cpu_mean{linear_cross_entropy_mean, DeviceKind::cpu,
                              [](std::int64_t ignored, const Tensor& labels, const Tensor& sum, const Tensor& loss) {
                                const std::int64_t counted = std::max<std::int64_t>(1, counted_rows(labels, ignored));
                                loss.fill(sum.item() / static_cast<double>(counted));
                              }};
const RegisterKernel cpu_gradient{linear_cross_entropy_gradient, DeviceKind::cpu,
                                  [](double smoothing, std::int64_t ignored, const Tensor& dy, const Tensor& labels,
                                     const Tensor& all_labels, const Tensor& logits) {
                                    with_type(logits, [&]<class C>(Type<C>) {
                                      gradient_on_cpu<C>(smoothing, ignored, dy, labels, all_labels, logits);
                                    });
                                  }};

/// Calls f(begin, end, logits [end - begin, V]) for blocks of rows of x; the logits are in the compute type.
template <class F>
void for_logits(const Operand& x, const Tensor& weight, const Tensor& bias, const F& f) {
  const std::int64_t rows = x.shape().rows(), classes = weight.shape()[0];
  const std::int64_t step = std::min(rows, logit_rows(classes));
  const Tensor memory = Tensor::empty({step, classes}, compute_type(x.dtype()), weight.device(), Purpose::workspace);
  for (std::int64_t begin = 0; begin < rows; begin += step) {
    const std::int64_t end = std::min(rows, begin + step);
    const Tensor in = x.rows(begin, end), logits = memory.leading(0, end - begin);
    gemm(Matrix(in), Matrix(weight).t(), Matrix(logits), {.bias = bias});
    f(begin, end, in, logits);
  }
}

}  // namespace

std::int64_t logit_rows(std::int64_t classes) {
  constexpr std::int64_t bytes = 16 * 1024 * 1024, least = 32, most = 1024;
  return std::clamp(bytes / (4 * std::max<std::int64_t>(classes, 1)) / least * least, least, most);
}

std::int64_t LinearCrossEntropy::macs(std::span<const Shape> inputs, const Shape&) const {
  return inputs[x].count() * inputs[weight].front();
}

Tensor LinearCrossEntropy::forward(std::span<const Tensor> inputs) const {
  const Tensor &in = inputs[x], &w = inputs[weight], &label = inputs[labels];
  expect(w.shape().rank() == 2 && in.shape().back() == w.shape()[1],
         "linear_cross_entropy: expected x [N, {}] for a weight {}, got {}", w.shape().back(), w.shape(), in.shape());
  expect(label.dtype() == DType::i64 && label.count() == in.rows(),
         "linear_cross_entropy: expected {} labels in i64, got {} in {}", in.rows(), label.shape(),
         name_of(label.dtype()));
  expect(label_smoothing >= 0 && label_smoothing <= 1, "linear_cross_entropy: expected a smoothing in [0, 1], got {}",
         label_smoothing);
  const std::int64_t classes = w.shape()[0];
  check_token_labels(in.device(), label, classes, ignored);
  const DType compute = compute_type(in.dtype());
  Tensor loss = Tensor::empty({}, compute, in.device());
  const Tensor sum = Tensor::zeros({}, DType::f64, in.device(), Purpose::workspace);
  const Tensor losses =
      Tensor::empty({std::min(in.rows(), logit_rows(classes))}, compute, in.device(), Purpose::workspace);
  const Tensor flat = label.reshape({label.count()});
  for_logits(
      Operand(in), w, inputs[bias], [&](std::int64_t begin, std::int64_t end, const Tensor&, const Tensor& logits) {
        linear_cross_entropy_loss(in.device(), label_smoothing, ignored, logits, flat.leading(begin, end), losses, sum);
      });
  linear_cross_entropy_mean(in.device(), ignored, label, sum, loss);
  return loss;
}

void LinearCrossEntropy::backward(Tensor dy, const Saved<LinearCrossEntropy>& saved, Grads& grads) const {
  const Operand in = saved.get<input(x)>();
  const Tensor w = saved.get<input(weight)>().whole(), label = saved.get<input(labels)>().whole();
  const Tensor b = saved.has<input(bias)>() ? saved.get<input(bias)>().whole() : Tensor();
  const Tensor flat = label.reshape({label.count()});
  const DType parameters = compute_type(in.dtype());
  bool add_weight = grads[weight].defined(), add_bias = grads[bias].defined();
  const bool add_x = grads[x].defined();
  const auto allocate = [&](int input, const Shape& shape, DType dtype) {
    if (!grads.wanted(input) || grads[input].defined()) return;
    grads[input] =
        (in.shape().rows() == 0 ? Tensor::zeros : Tensor::empty)(shape, dtype, w.device(), Purpose::transient);
  };
  allocate(x, in.shape(), in.dtype());
  allocate(weight, w.shape(), parameters);
  allocate(bias, {w.shape()[0]}, parameters);
  for_logits(in, w, b, [&](std::int64_t begin, std::int64_t end, const Tensor& rows, const Tensor& logits) {
    linear_cross_entropy_gradient(w.device(), label_smoothing, ignored, dy, flat.leading(begin, end), label, logits);
    if (grads.wanted(bias)) sum_rows(w.device(), logits, std::exchange(add_bias, true), grads[bias]);
    if (grads.wanted(weight))
      gemm(Matrix(logits).t(), Matrix(rows), Matrix(grads[weight]), {.add = std::exchange(add_weight, true)});
    if (grads.wanted(x)) gemm(Matrix(logits), Matrix(w), Matrix(grads[x].row_range(begin, end)), {.add = add_x});
  });
}

}  // namespace lacuna
