#include "ops/losses/linear_cross_entropy.h"

#include "core/math.h"
#include "core/planned_device.h"
#include "ops/arithmetic/arithmetic_kernels.h"
#include "ops/kernels/rowwise.h"
#include "ops/losses/soft_cap.h"
#include "ops/operand.h"
#include "ops/products/gemm.h"
#include "ops/products/linear_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

namespace lacuna {
namespace {

const RegisterOp<LinearCrossEntropy> linear_cross_entropy;
const RegisterOp<FrozenLinearCrossEntropy> frozen_linear_cross_entropy;

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

/// The derivative of a soft cap where it has the value `capped`. bound: 1 / cap, or 0 if there is none.
template <class C>
C slope_of_cap(C bound, C capped) {
  return C(1) - (bound * capped) * (bound * capped);
}
/// From logits z [n] to scale · (softmax - uniform), before the soft cap. Not inlined: with its arguments in memory
/// that z may overlap, GCC kept the loop scalar.
template <class C>
[[gnu::noinline]] void row_gradient_of(std::int64_t n, C log_sum, C scale, C uniform, C bound, C* z) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) z[i] = scale * slope_of_cap(bound, z[i]) * (math::exp(z[i] - log_sum) - uniform);
}

template <class C>
void gradient_on_cpu(double smoothing, std::int64_t ignored, double soft_cap, const Tensor& dy, const Tensor& labels,
                     const Tensor& all_labels, const Tensor& logits) {
  const std::int64_t n = logits.shape().back();
  const auto kept = static_cast<C>(1 - smoothing), uniform = static_cast<C>(smoothing / static_cast<double>(n));
  const C scale = *dy.data<C>() / static_cast<C>(std::max<std::int64_t>(1, counted_rows(all_labels, ignored)));
  const C bound = soft_cap == 0 ? C(0) : static_cast<C>(1 / soft_cap);
  C* const z = logits.data<C>();
  const auto* const label = labels.data<std::int64_t>();
  parallel_for(labels.count(), serial_rows(n), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      C* const in = z + row * n;
      if (label[row] == ignored) {
        std::fill_n(in, n, C(0));
        continue;
      }
      const C of_label = scale * kept * slope_of_cap(bound, in[label[row]]);
      row_gradient_of(n, log_sum_of(n, in), scale, uniform, bound, in);
      in[label[row]] -= of_label;
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
                                  [](double smoothing, std::int64_t ignored, double soft_cap, const Tensor& dy,
                                     const Tensor& labels, const Tensor& all_labels, const Tensor& logits) {
                                    with_type(logits, [&]<class C>(Type<C>) {
                                      gradient_on_cpu<C>(smoothing, ignored, soft_cap, dy, labels, all_labels, logits);
                                    });
                                  }};
const RegisterKernel cpu_cap{cap_logits, DeviceKind::cpu, [](double soft_cap, const Tensor& logits) {
                               with_type(logits, [&]<class C>(Type<C>) {
                                 map(logits.count(), formula::SoftCap{soft_cap}, logits.data<C>(), logits.data<C>());
                               });
                             }};

const RegisterKernel cpu_scale_by{scale_by, DeviceKind::cpu,
                                  [](const Tensor& dy, double factor, const Tensor& x, const Tensor& y) {
                                    with_float_type(y.dtype(), [&]<class T>(Type<T>) {
                                      using C = Compute<T>;
                                      const C by = static_cast<C>(factor) * *dy.data<C>();
                                      map(
                                          y.count(), [by](C v) { return by * v; }, y.data<T>(), x.data<T>());
                                    });
                                  }};

/// Rows of x whose logits exist at a time.
struct LogitBlock {
  Tensor x, labels, logits;            // [n, K], [n], [n, V] in the compute type
  std::int64_t begin;                  // the first row, if they follow each other
  std::span<const std::int64_t> rows;  // otherwise: the numbers of the first of them; the rest counts nothing
};

/// The rows that count, on the CPU; on other devices, where labels cannot be read, all.
class CountedRows {
 public:
  CountedRows(const Tensor& labels, std::int64_t ignored)
      : labels_(labels.reshape({labels.count()})), ignored_(ignored) {
    const bool reads = labels.device() == Device::cpu;
    const auto* const label = reads ? labels.data<const std::int64_t>() : nullptr;
    for (std::int64_t i = 0; i < labels.count(); ++i)
      if (!reads || label[i] != ignored) rows_.push_back(i);
  }
  std::int64_t count() const { return static_cast<std::int64_t>(rows_.size()); }
  bool are_all() const { return count() == labels_.count(); }

  /// Calls f(LogitBlock) for all of them.
  template <class F>
  void for_logits(const Operand& x, const Tensor& weight, const Tensor& bias, double soft_cap, const F& f) const {
    const std::int64_t classes = weight.shape()[0], step = std::min(labels_.count(), logit_rows(classes));
    const Tensor memory = workspace({step, classes}, compute_type(x.dtype()));
    const bool gathers = !computes_on_cuda(labels_.device());
    const Tensor some = gathers ? workspace({step, x.shape().back()}, x.dtype()) : Tensor();
    const Tensor some_labels = gathers ? workspace({step}, DType::i64) : Tensor();
    for (std::int64_t first = 0; first < count(); first += step) {
      const std::int64_t n = std::min(step, count() - first);
      // The first block has all its rows, so that what it takes is known without the labels.
      const std::int64_t height = first == 0 ? step : n;
      const std::span rows = std::span(rows_).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(n));
      LogitBlock block{.x = {}, .labels = {}, .logits = memory.leading(0, height), .begin = rows.front(), .rows = {}};
      if (n == height && rows.back() - rows.front() + 1 == n) {
        block.x = x.rows(block.begin, block.begin + n);
        block.labels = labels_.leading(block.begin, block.begin + n);
      } else {
        block.rows = rows;
        block.x = some.leading(0, height);
        block.labels = some_labels.leading(0, height);
        gather(x, rows, step, block);
      }
      gemm(Matrix(block.x), Matrix(weight).t(), Matrix(block.logits), {.bias = bias});
      if (soft_cap != 0) cap_logits(block.logits.device(), soft_cap, block.logits);
      f(block);
    }
  }

 private:
  Tensor workspace(const Shape& shape, DType dtype) const {
    return Tensor::empty(shape, dtype, labels_.device(), Purpose::workspace);
  }
  /// Copies rows and their labels into the block; those that it has beyond are zeros and count nothing. At most `most`
  /// rows of x are decoded at a time.
  void gather(const Operand& x, std::span<const std::int64_t> rows, std::int64_t most, const LogitBlock& block) const {
    most = std::min(most, x.block_rows());
    const std::int64_t row_bytes = x.shape().back() * size_of(x.dtype());
    for (std::size_t i = 0; i < rows.size();) {
      std::size_t end = i + 1;
      while (end < rows.size() && rows[end] < rows[i] + most) ++end;
      const std::int64_t begin = rows[i];
      const Tensor values = x.rows(begin, rows[end - 1] + 1);
      for (; i < end; ++i) {
        std::memcpy(block.x.raw() + static_cast<std::int64_t>(i) * row_bytes,
                    values.data<const std::byte>() + (rows[i] - begin) * row_bytes,
                    static_cast<std::size_t>(row_bytes));
        block.labels.data<std::int64_t>()[i] = labels_.data<const std::int64_t>()[rows[i]];
      }
    }
    for (auto i = static_cast<std::int64_t>(rows.size()); i < block.x.rows(); ++i) {
      std::memset(block.x.raw() + i * row_bytes, 0, static_cast<std::size_t>(row_bytes));
      block.labels.data<std::int64_t>()[i] = ignored_;
    }
  }

  Tensor labels_;  // [N]
  std::int64_t ignored_;
  std::vector<std::int64_t> rows_;
};

/// The gradient of the block's rows of x, from that of its logits, written or added to their places in `all`. Gathered
/// rows are overwritten.
void add_input_gradient(const LogitBlock& block, const Tensor& weight, bool add, const Tensor& all) {
  if (block.rows.empty()) {
    const Tensor to = all.row_range(block.begin, block.begin + block.logits.rows());
    return gemm(Matrix(block.logits), Matrix(weight), Matrix(to), {.add = add});
  }
  gemm(Matrix(block.logits), Matrix(weight), Matrix(block.x));
  for (std::size_t i = 0; i < block.rows.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const Tensor row = block.x.row_range(at, at + 1), to = all.row_range(block.rows[i], block.rows[i] + 1);
    if (add)
      add_elements(all.device(), to, row, to);
    else
      to.copy_from(row);
  }
}

/// The loss. `gradient`, if not null, becomes that of x for a gradient of the loss of N.
Tensor loss_of(const LinearCrossEntropy& how, const Tensor& x, const Tensor& w, const Tensor& bias,
               const Tensor& labels, Tensor* gradient) {
  expect(w.shape().rank() == 2 && x.shape().back() == w.shape()[1],
         "linear_cross_entropy: expected x [N, {}] for a weight {}, got {}", w.shape().back(), w.shape(), x.shape());
  expect(labels.dtype() == DType::i64 && labels.count() == x.rows(),
         "linear_cross_entropy: expected {} labels in i64, got {} in {}", x.rows(), labels.shape(),
         name_of(labels.dtype()));
  expect(how.label_smoothing >= 0 && how.label_smoothing <= 1,
         "linear_cross_entropy: expected a smoothing in [0, 1], got {}", how.label_smoothing);
  expect(how.soft_cap >= 0, "linear_cross_entropy: expected a soft cap from 0, got {}", how.soft_cap);
  const Device device = x.device();
  const std::int64_t classes = w.shape()[0], step = std::min(x.rows(), logit_rows(classes));
  check_token_labels(device, labels, classes, how.ignored);
  const CountedRows counted(labels, how.ignored);
  const DType compute = compute_type(x.dtype());
  Tensor loss = Tensor::empty({}, compute, device), of_loss;
  const Tensor sum = Tensor::zeros({}, DType::f64, device, Purpose::workspace);
  const Tensor losses = Tensor::empty({step}, compute, device, Purpose::workspace);
  if (gradient != nullptr) {
    *gradient = (counted.are_all() ? Tensor::empty : Tensor::zeros)(x.shape(), x.dtype(), device, Purpose::transient);
    of_loss = Tensor::full({}, static_cast<double>(x.rows()), compute, device, Purpose::workspace);
  }
  counted.for_logits(Operand(x), w, bias, how.soft_cap, [&](const LogitBlock& block) {
    linear_cross_entropy_loss(device, how.label_smoothing, how.ignored, block.logits, block.labels, losses, sum);
    if (gradient == nullptr) return;
    linear_cross_entropy_gradient(device, how.label_smoothing, how.ignored, how.soft_cap, of_loss, block.labels, labels,
                                  block.logits);
    add_input_gradient(block, w, false, *gradient);
  });
  linear_cross_entropy_mean(device, how.ignored, labels, sum, loss);
  return loss;
}

}  // namespace

std::int64_t logit_rows(std::int64_t classes) {
  constexpr std::int64_t bytes = 64 * 1024 * 1024, least = 32, most = 1024;  // all of the weight is read for each block
  return std::clamp(bytes / (4 * std::max<std::int64_t>(classes, 1)) / least * least, least, most);
}

std::int64_t LinearCrossEntropy::macs(std::span<const Shape> inputs, const Shape&) const {
  return inputs[x].count() * inputs[weight].front();
}

Tensor LinearCrossEntropy::forward(std::span<const Tensor> inputs) const {
  return loss_of(*this, inputs[x], inputs[weight], inputs[bias], inputs[labels], nullptr);
}

void LinearCrossEntropy::backward(Tensor dy, const Saved<LinearCrossEntropy>& saved, Grads& grads) const {
  const Operand in = saved.get<input(x)>();
  const Tensor w = saved.get<input(weight)>().whole(), label = saved.get<input(labels)>().whole();
  const Tensor b = saved.has<input(bias)>() ? saved.get<input(bias)>().whole() : Tensor();
  const CountedRows counted(label, ignored);
  const DType parameters = compute_type(in.dtype());
  bool add_weight = grads[weight].defined(), add_bias = grads[bias].defined();
  const bool add_x = grads[x].defined();
  const auto allocate = [&](int input, const Shape& shape, DType dtype, bool covered) {
    if (!grads.wanted(input) || grads[input].defined()) return;
    grads[input] = (covered ? Tensor::empty : Tensor::zeros)(shape, dtype, w.device(), Purpose::transient);
  };
  allocate(x, in.shape(), in.dtype(), counted.are_all() && counted.count() > 0);
  allocate(weight, w.shape(), parameters, counted.count() > 0);
  allocate(bias, {w.shape()[0]}, parameters, counted.count() > 0);
  counted.for_logits(in, w, b, soft_cap, [&](const LogitBlock& block) {
    linear_cross_entropy_gradient(w.device(), label_smoothing, ignored, soft_cap, dy, block.labels, label,
                                  block.logits);
    if (grads.wanted(bias)) sum_rows(w.device(), block.logits, std::exchange(add_bias, true), grads[bias]);
    if (grads.wanted(weight))
      gemm(Matrix(block.logits).t(), Matrix(block.x), Matrix(grads[weight]), {.add = std::exchange(add_weight, true)});
    if (grads.wanted(x)) add_input_gradient(block, w, add_x, grads[x]);
  });
}

std::int64_t FrozenLinearCrossEntropy::macs(std::span<const Shape> inputs, const Shape&) const {
  return inputs[x].count() * inputs[weight].front();
}

Tensor FrozenLinearCrossEntropy::forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const {
  extra_outputs.resize(1);
  return loss_of(loss, inputs[x], inputs[weight], inputs[bias], inputs[labels], &extra_outputs[gradient]);
}

void FrozenLinearCrossEntropy::backward(const Tensor& dy, const Saved<FrozenLinearCrossEntropy>& saved,
                                        Grads& grads) const {
  expect(!grads.wanted(weight) && !grads.wanted(bias), "{}: expected a weight and a bias that are not trained", name);
  const Tensor made = saved.get<extra_output(gradient)>().whole();
  grads[x] = empty_like(made);
  scale_by(dy.device(), dy, 1 / static_cast<double>(made.rows()), made, grads[x]);
}

}  // namespace lacuna
