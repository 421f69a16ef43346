#include "ops/losses/linear_cross_entropy.h"

#include "core/coded/codec.h"
#include "core/math.h"
#include "core/planned_device.h"
#include "ops/arithmetic/arithmetic_kernels.h"
#include "ops/kernels/rowwise.h"
#include "ops/losses/class_formulas.h"
#include "ops/losses/class_sums.h"
#include "ops/operand.h"
#include "ops/products/gemm.h"
#include "ops/products/linear_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
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

/// From logits z [n] to scale · (softmax - uniform), before the soft cap. Not inlined: with its arguments in memory
/// that z may overlap, GCC kept the loop scalar.
template <class C>
[[gnu::noinline]] void row_gradient_of(std::int64_t n, C log_sum, C scale, C uniform, C bound, C* z) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i)
    z[i] = scale * formula::slope_of_cap(bound, z[i]) * (math::exp(z[i] - log_sum) - uniform);
}

template <class C>
void gradient_on_cpu(double smoothing, std::int64_t ignored, double soft_cap, const Tensor& dy, const Tensor& labels,
                     const Tensor& all_labels, const Tensor& logits) {
  const std::int64_t n = logits.shape().back();
  const auto kept = static_cast<C>(1 - smoothing), uniform = static_cast<C>(smoothing / static_cast<double>(n));
  const C scale = *dy.data<C>() / static_cast<C>(std::max<std::int64_t>(1, counted_rows(all_labels, ignored)));
  const C bound = formula::bound_of_cap<C>(soft_cap);
  C* const z = logits.data<C>();
  const auto* const label = labels.data<std::int64_t>();
  parallel_for(labels.count(), serial_rows(n), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      C* const in = z + row * n;
      if (label[row] == ignored) {
        std::fill_n(in, n, C(0));
        continue;
      }
      const C of_label = scale * kept * formula::slope_of_cap(bound, in[label[row]]);
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

/// Rows of x that go through the classes together.
struct LogitRows {
  Tensor x, labels;                    // [n, K], [n]
  std::int64_t begin, count;           // the first row; rows that count: n, or fewer in the first block
  std::span<const std::int64_t> rows;  // if they do not follow each other: their numbers
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

  /// Calls f(LogitRows) for all of them, `step` at a time. The first block has `step` rows, so that what it takes is
  /// known without the labels: those beyond its count are zeros and count nothing.
  template <class F>
  void for_rows(const Operand& x, std::int64_t step, const F& f) const {
    const bool gathers = !computes_on_cuda(labels_.device());
    const Tensor some = gathers ? workspace({step, x.shape().back()}, x.dtype()) : Tensor();
    const Tensor some_labels = gathers ? workspace({step}, DType::i64) : Tensor();
    for (std::int64_t first = 0; first < count(); first += step) {
      const std::int64_t n = std::min(step, count() - first), height = first == 0 ? step : n;
      const std::span rows = std::span(rows_).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(n));
      LogitRows block{.x = {}, .labels = {}, .begin = rows.front(), .count = n, .rows = {}};
      if (n == height && rows.back() - rows.front() + 1 == n) {
        block.x = x.rows(block.begin, block.begin + n);
        block.labels = labels_.leading(block.begin, block.begin + n);
      } else {
        block.rows = rows;
        block.x = some.leading(0, height);
        block.labels = some_labels.leading(0, height);
        gather(x, rows, step, block);
      }
      f(block);
    }
  }

 private:
  Tensor workspace(const Shape& shape, DType dtype) const {
    return Tensor::empty(shape, dtype, labels_.device(), Purpose::workspace);
  }
  /// Copies rows and their labels into the block; those that it has beyond are zeros and count nothing. At most `most`
  /// rows of x are decoded at a time.
  void gather(const Operand& x, std::span<const std::int64_t> rows, std::int64_t most, const LogitRows& block) const {
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

/// Puts the gradient of the block's rows of x, which `make(to, add)` writes or adds, at their places in `all`. Gathered
/// rows are overwritten.
template <class Make>
void put_rows(const LogitRows& block, bool add, const Tensor& all, const Make& make) {
  if (block.rows.empty()) return make(all.row_range(block.begin, block.begin + block.count), add);
  make(block.x, false);
  for (std::size_t i = 0; i < block.rows.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const Tensor row = block.x.row_range(at, at + 1), to = all.row_range(block.rows[i], block.rows[i] + 1);
    if (add)
      add_elements(all.device(), to, row, to);
    else
      to.copy_from(row);
  }
}

/// A weight [V, K] in forward, by blocks of classes: each is read, decoded or rounded once for all rows that go through
/// it together, and is in cache for the second product.
class ClassBlocks {
 public:
  ClassBlocks(const Tensor& w, DType type, std::int64_t all_rows) : w_(w) {
    const bool on_gpu = computes_on_cuda(w.device());
    const std::int64_t all = w.shape()[0], width = w.shape()[1];
    rows = std::clamp<std::int64_t>(all_rows, 1, on_gpu ? 2048 : 1024);
    // Elements of logits and of the converted weight: products reach their speed from about 4,096 classes on.
    const std::int64_t logits = (on_gpu ? 16 : 4) << 20, converted = (on_gpu ? 32 : 2) << 20;
    const bool is_stored_bf16 = w.is_coded() && w.format().code == WeightCode::bf16 && type == DType::bf16;
    const bool converts = !is_stored_bf16 && w.dtype() != type;
    const std::int64_t most = std::min(logits / rows, converts ? converted / width : logits);
    classes = std::min(all, std::max<std::int64_t>(512, most / 64 * 64));
    if (is_stored_bf16) w_ = w.as_bf16();
    if (converts) memory_ = Tensor::empty({classes, width}, type, w.device(), Purpose::workspace);
  }
  /// Calls f(first class, weight [n, K] in the type of x).
  template <class F>
  void for_each(const F& f) const {
    for (std::int64_t first = 0; first < w_.shape()[0]; first += classes) {
      const std::int64_t end = std::min(w_.shape()[0], first + classes);
      if (!memory_.defined()) {
        f(first, w_.leading(first, end));
        continue;
      }
      const Tensor block = memory_.leading(0, end - first);
      if (w_.is_coded())
        decode(w_, CodedPart{first, end - first, 0, block.shape()[1]}, block);
      else
        block.copy_from(w_.leading(first, end));
      f(first, block);
    }
  }
  std::int64_t rows = 0, classes = 0;  // whose logits exist at a time

 private:
  Tensor w_, memory_{};
};

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
  const std::int64_t classes = w.shape()[0], width = w.shape()[1];
  check_token_labels(device, labels, classes, how.ignored);
  const ClassTargets targets{classes, how.ignored, how.label_smoothing, how.soft_cap};
  const CountedRows counted(labels, how.ignored);
  const DType compute = compute_type(x.dtype());
  const ClassBlocks blocks(w, x.dtype(), x.rows());
  const auto workspace = [&](const Shape& shape, DType dtype) {
    return Tensor::empty(shape, dtype, device, Purpose::workspace);
  };
  Tensor loss = Tensor::empty({}, compute, device), scale, running, of_labels;
  const Tensor sum = Tensor::zeros({}, DType::f64, device, Purpose::workspace),
               sums = workspace({class_sum_count * blocks.rows}, compute),
               memory = workspace({blocks.rows * blocks.classes}, compute);
  if (gradient != nullptr) {
    *gradient = (counted.are_all() ? Tensor::empty : Tensor::zeros)(x.shape(), x.dtype(), device, Purpose::transient);
    running = workspace({blocks.rows, width}, compute);
    of_labels = workspace({blocks.rows, width}, compute);
    scale = workspace({}, compute);
    const Tensor all = Tensor::full({}, static_cast<double>(x.rows()), DType::f64, device, Purpose::workspace);
    linear_cross_entropy_mean(device, how.ignored, labels, all, scale);
  }
  bool is_first = true;  // of all blocks
  counted.for_rows(Operand(x), blocks.rows, [&](const LogitRows& block) {
    const std::int64_t height = block.x.rows();
    const Tensor own_sums = sums.leading(0, class_sum_count * height).reshape({class_sum_count, height});
    own_sums.fill(0);
    own_sums.leading(0, 1).fill(-std::numeric_limits<double>::infinity());  // ClassSum::largest
    blocks.for_each([&](std::int64_t first, const Tensor& weight) {
      const std::int64_t n = std::exchange(is_first, false) ? height : block.count, own = weight.shape()[0];
      const Tensor logits = memory.leading(0, n * own).reshape({n, own}), own_labels = block.labels.leading(0, n);
      const Tensor before = gradient != nullptr && first > 0 ? running.leading(0, n) : Tensor();
      gemm(Matrix(block.x.leading(0, n)), Matrix(weight).t(), Matrix(logits),
           {.bias = bias.defined() ? bias.leading(first, first + own) : Tensor()});
      if (how.soft_cap != 0) cap_logits(device, how.soft_cap, logits);
      absorb_classes(device, targets, first, gradient != nullptr, own_labels, logits, own_sums, before);
      if (gradient == nullptr) return;
      gemm(Matrix(logits), Matrix(weight), Matrix(running.leading(0, n)), {.add = first > 0});
      take_label_rows(device, first, own_labels, weight, of_labels.leading(0, n));
    });
    add_class_losses(device, targets, block.labels, own_sums, sum);
    if (gradient == nullptr) return;
    put_rows(block, false, *gradient, [&](const Tensor& to, bool) {
      class_gradient(device, targets, scale, block.labels, own_sums, running, of_labels, to);
    });
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
  const std::int64_t classes = w.shape()[0], step = std::min(in.shape().rows(), logit_rows(classes));
  const Tensor memory = Tensor::empty({step, classes}, parameters, w.device(), Purpose::workspace);
  counted.for_rows(in, step, [&](const LogitRows& block) {
    const Tensor logits = memory.leading(0, block.x.rows());
    gemm(Matrix(block.x), Matrix(w).t(), Matrix(logits), {.bias = b});
    if (soft_cap != 0) cap_logits(logits.device(), soft_cap, logits);
    linear_cross_entropy_gradient(w.device(), label_smoothing, ignored, soft_cap, dy, block.labels, label, logits);
    if (grads.wanted(bias)) sum_rows(w.device(), logits, std::exchange(add_bias, true), grads[bias]);
    if (grads.wanted(weight))
      gemm(Matrix(logits).t(), Matrix(block.x), Matrix(grads[weight]), {.add = std::exchange(add_weight, true)});
    if (grads.wanted(x))
      put_rows(block, add_x, grads[x],
               [&](const Tensor& to, bool add) { gemm(Matrix(logits), Matrix(w), Matrix(to), {.add = add}); });
  });
}

std::int64_t FrozenLinearCrossEntropy::macs(std::span<const Shape> inputs, const Shape&) const {
  return inputs[x].count() * inputs[weight].front();
}

Tensor FrozenLinearCrossEntropy::forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const {
  expect(loss.label_smoothing == 0, "{}: expected no label smoothing, got {}", name, loss.label_smoothing);
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
