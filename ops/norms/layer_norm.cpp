#include "ops/norms/layer_norm.h"

#include "ops/kernels/rowwise.h"
#include "ops/norms/layer_norm_kernels.h"
#include "ops/norms/parameter_sums.h"
#include "ops/row_blocks.h"

#include <cmath>

namespace lacuna {
namespace {

const RegisterOp<LayerNorm> layer_norm;

/// y of one row, [n] each; bias null: none. Forward and rematerialization share it, so that their bits agree.
template <class T, class C>
[[gnu::noinline]] void normalise(std::int64_t n, const C* x, C mean, C rstd, const C* weight, const C* bias, T* y) {
  if (bias == nullptr) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<T>((x[i] - mean) * rstd * weight[i]);
    return;
  }
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<T>((x[i] - mean) * rstd * weight[i] + bias[i]);
}

/// Adds one row to the sums [2, n] of dy·x̂ and dy. x̂ = (x - mean)·rstd; x, dy: [n].
template <class C>
void add_row(std::int64_t n, const C* x, const C* dy, C mean, C rstd, C* sums) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    sums[i] += dy[i] * ((x[i] - mean) * rstd);
    sums[n + i] += dy[i];
  }
}

/// dx of one row, and the row added to the sums [2, n]. x, dy, weight: [n]; dx [n] may be dy's memory.
template <class T, class C>
void row_gradient(std::int64_t n, const C* x, const C* dy, C mean, C rstd, const C* weight, C* sums, T* dx, bool add) {
  C sum_g{}, sum_gx{};  // of g = dy·weight and of g·x̂
#pragma omp simd reduction(+ : sum_g, sum_gx)
  for (std::int64_t i = 0; i < n; ++i) {
    const C normalised = (x[i] - mean) * rstd, g = dy[i] * weight[i];
    sums[i] += dy[i] * normalised;
    sums[n + i] += dy[i];
    sum_g += g;
    sum_gx += g * normalised;
  }
  const C scale = rstd / static_cast<C>(n), shift = scale * sum_g, slope = scale * rstd * sum_gx;
  const auto gradient = [&](std::int64_t i) { return rstd * (dy[i] * weight[i]) - shift - (x[i] - mean) * slope; };
  if (add) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) dx[i] = static_cast<T>(to_compute(dx[i]) + gradient(i));
  } else {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) dx[i] = static_cast<T>(gradient(i));
  }
}

template <class T>
void forward_on_cpu(double eps, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                    const Tensor& rstd, const Tensor& y) {
  using C = Compute<T>;
  const std::int64_t n = x.shape().back();
  const C* const shift = bias.defined() ? bias.data<C>() : nullptr;
  parallel_for(x.rows(), serial_rows(n), [&](std::int64_t begin, std::int64_t end) {
    std::vector<C> scratch = row_scratch<T>(n);
    const C scale = C(1) / static_cast<C>(n);
    for (std::int64_t row = begin; row < end; ++row) {
      const C* const values = in_compute_type(x.data<T>() + row * n, n, scratch.data());
      const C m = scale * sum_of(
                              n, [](const auto& v) { return v; }, values);
      const C variance = scale * sum_of(
                                     n, [m](const auto& v) { return (v - m) * (v - m); }, values);
      const C r = C(1) / std::sqrt(variance + static_cast<C>(eps));
      normalise(n, values, m, r, weight.data<C>(), shift, y.data<T>() + row * n);
      mean.data<C>()[row] = m;
      rstd.data<C>()[row] = r;
    }
  });
}

template <class T>
void normalize_on_cpu(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean, const Tensor& rstd,
                      const Tensor& y) {
  using C = Compute<T>;
  const std::int64_t n = y.shape().back();
  const C* const shift = bias.defined() ? bias.data<C>() : nullptr;
  const C *const m = mean.data<C>(), *const r = rstd.data<C>();
  parallel_for(y.rows(), serial_rows(n), [&](std::int64_t begin, std::int64_t end) {
    std::vector<C> scratch = row_scratch<T>(n);
    for (std::int64_t row = begin; row < end; ++row)
      normalise(n, in_compute_type(x.data<T>() + row * n, n, scratch.data()), m[row], r[row], weight.data<C>(), shift,
                y.data<T>() + row * n);
  });
}

/// Each thread sums the gradients of weight and bias over its own rows.
template <class T>
void backward_on_cpu(const Operand& x, const Tensor& weight, const Tensor& mean, const Tensor& rstd, const Tensor& dy,
                     const LayerNormGradients& to) {
  using C = Compute<T>;
  const std::int64_t n = dy.shape().back();
  const RowPartition partition = partition_for_sums(dy);
  ParameterSums<C> sums(partition.parts, 2, n, dy.device());
  std::vector<std::vector<C>> x_rows(static_cast<std::size_t>(partition.parts), row_scratch<T>(n)), dy_rows = x_rows;
  for_row_blocks(x, partition, [&](const RowBlock& block) {
    C* const x_scratch = x_rows[static_cast<std::size_t>(block.part)].data();
    C* const dy_scratch = dy_rows[static_cast<std::size_t>(block.part)].data();
    for (std::int64_t row = block.begin; row < block.end; ++row) {
      const C m = mean.data<C>()[row], r = rstd.data<C>()[row];
      C* const own = sums.of_next_row(block.part);
      const C* const in = in_compute_type(block.values<T>() + (row - block.begin) * n, n, x_scratch);
      const C* const g = in_compute_type(dy.data<T>() + row * n, n, dy_scratch);
      if (to.x.defined())
        row_gradient(n, in, g, m, r, weight.data<C>(), own, to.x.data<T>() + row * n, to.add_x);
      else
        add_row(n, in, g, m, r, own);
    }
  });
  if (dy.device() == Device::meta) return;
  sums.add_up(0, to.weight);
  sums.add_up(1, to.bias);
}

template <class T>
void bias_on_cpu(const Tensor& dy, const Tensor& to) {
  using C = Compute<T>;
  const std::int64_t n = dy.shape().back();
  const RowPartition partition = partition_for_sums(dy);
  ParameterSums<C> sums(partition.parts, 2, n, dy.device());
  if (dy.device() == Device::meta) return;
  parallel_tasks(partition.parts, [&](std::int64_t part, int) {
    std::vector<C> scratch = row_scratch<T>(n);
    partition.for_row_blocks(0, partition.count, part, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        C* const own = sums.of_next_row(static_cast<int>(part)) + n;
        const C* const g = in_compute_type(dy.data<T>() + row * n, n, scratch.data());
#pragma GCC ivdep
        for (std::int64_t i = 0; i < n; ++i) own[i] += g[i];
      }
    });
  });
  sums.add_up(1, to);
}

const RegisterKernel cpu_forward{
    layer_norm_forward, DeviceKind::cpu,
    [](double eps, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean, const Tensor& rstd,
       const Tensor& y) {
      with_float_type(x.dtype(), [&]<class T>(Type<T>) { forward_on_cpu<T>(eps, x, weight, bias, mean, rstd, y); });
    }};
const RegisterKernel cpu_normalize{
    layer_norm_normalize, DeviceKind::cpu,
    [](const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean, const Tensor& rstd,
       const Tensor& y) {
      with_float_type(y.dtype(), [&]<class T>(Type<T>) { normalize_on_cpu<T>(x, weight, bias, mean, rstd, y); });
    }};
const RegisterKernel cpu_backward{
    layer_norm_backward,
    {DeviceKind::cpu, DeviceKind::meta},
    [](const Operand& x, const Tensor& weight, const Tensor& mean, const Tensor& rstd, const Tensor& dy,
       const LayerNormGradients& to) {
      with_float_type(dy.dtype(), [&]<class T>(Type<T>) { backward_on_cpu<T>(x, weight, mean, rstd, dy, to); });
    }};

const RegisterKernel cpu_bias{
    layer_norm_bias, {DeviceKind::cpu, DeviceKind::meta}, [](const Tensor& dy, const Tensor& to) {
      with_float_type(dy.dtype(), [&]<class T>(Type<T>) { bias_on_cpu<T>(dy, to); });
    }};

}  // namespace

Tensor LayerNorm::forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const {
  const Tensor& in = inputs[x];
  const DType compute = compute_type(in.dtype());
  const Shape channels{in.shape().back()};
  for (const Tensor& parameter : {inputs[weight], inputs[bias].defined() ? inputs[bias] : inputs[weight]})
    expect(parameter.shape() == channels && parameter.dtype() == compute,
           "layer_norm of {} {} expects weight and bias {} in {}, got {} in {}", name_of(in.dtype()), in.shape(),
           channels, name_of(compute), parameter.shape(), name_of(parameter.dtype()));
  Tensor y = empty_like(in);
  extra_outputs = {Tensor::empty({in.rows(), 1}, compute, in.device()),
                   Tensor::empty({in.rows(), 1}, compute, in.device())};
  layer_norm_forward(y.device(), eps, in, inputs[weight], inputs[bias], extra_outputs[mean], extra_outputs[rstd], y);
  return y;
}

void LayerNorm::rematerialize(const RematInputs<LayerNorm>& from, const Tensor& out) const {
  if (const Operand* const codes = from.codes<input(x)>())
    return layer_norm_of_codes(out.device(), *codes, from.first_element(), from.get<input(weight)>(),
                               from.get<input(bias)>(), from.get<extra_output(mean)>(), from.get<extra_output(rstd)>(),
                               out);
  layer_norm_normalize(out.device(), from.get<input(x)>(), from.get<input(weight)>(), from.get<input(bias)>(),
                       from.get<extra_output(mean)>(), from.get<extra_output(rstd)>(), out);
}

void LayerNorm::backward(Tensor dy, const Saved<LayerNorm>& saved, Grads& grads) const {
  const Shape channels{dy.shape().back()};
  if (!grads.wanted(x) && !grads.wanted(weight)) {
    Tensor sum = Tensor::zeros(channels, compute_type(dy.dtype()), dy.device());
    layer_norm_bias(dy.device(), dy, sum);
    grads[bias] = sum;
    return;
  }
  LayerNormGradients to{.add_x = grads[x].defined()};
  if (grads.wanted(x)) to.x = to.add_x ? grads[x] : reuse_or_empty(dy, dy.shape(), dy.dtype());
  if (grads.wanted(weight)) to.weight = Tensor::empty(channels, compute_type(dy.dtype()), dy.device());
  if (grads.wanted(bias)) to.bias = Tensor::empty(channels, compute_type(dy.dtype()), dy.device());
  layer_norm_backward(dy.device(), saved.get<input(x)>(),
                      grads.wanted(x) ? saved.get<input(weight)>().whole() : Tensor(),
                      saved.get<extra_output(mean)>().whole(), saved.get<extra_output(rstd)>().whole(), dy, to);
  if (grads.wanted(x)) grads[x] = to.x;
  if (grads.wanted(weight)) grads[weight] = to.weight;
  if (grads.wanted(bias)) grads[bias] = to.bias;
}

}  // namespace lacuna
