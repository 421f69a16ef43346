#include "ops/norms/rms_norm.h"

#include "ops/norms/parameter_sums.h"
#include "ops/norms/rms_norm_kernels.h"

#include <cmath>

namespace lacuna {
namespace {

const RegisterOp<RmsNorm> rms_norm;

/// y of one row, [n] each. Forward and rematerialization share it, so that their bits agree.
template <class T, class C>
[[gnu::noinline]] void scale_row(std::int64_t n, const C* x, C rstd, C offset, const C* weight, T* y) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(x[i] * rstd * (offset + weight[i]));
}

/// Adds a row's dy · x̂ to sums [n]. x̂ = x · rstd; x, dy: [n].
template <class C>
void add_weight_gradient(std::int64_t n, const C* x, const C* dy, C rstd, C* sums) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) sums[i] += dy[i] * (x[i] * rstd);
}

/// dx = rstd · (g - x̂ · mean(g · x̂)) of one row, with g = dy · (offset + weight). x, dy, weight: [n]; dx [n] may be dy.
template <class T, class C>
void input_gradient(std::int64_t n, const C* x, const C* dy, C rstd, C offset, const C* weight, T* dx, bool add) {
  C sum{};
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += dy[i] * (offset + weight[i]) * x[i];
  const C slope = rstd * rstd * rstd / static_cast<C>(n) * sum;
  const auto gradient = [&](std::int64_t i) { return rstd * (dy[i] * (offset + weight[i])) - x[i] * slope; };
  if (add) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) dx[i] = static_cast<T>(to_compute(dx[i]) + gradient(i));
  } else {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) dx[i] = static_cast<T>(gradient(i));
  }
}

/// `eps` null: rstd is known.
template <class T>
void normalise_rows(const double* eps, double offset, const Tensor& x, const Tensor& weight, const Tensor& rstd,
                    const Tensor& y) {
  using C = Compute<T>;
  const std::int64_t n = weight.count();
  C* const r = rstd.data<C>();
  parallel_for(rstd.count(), serial_rows(n), [&](std::int64_t begin, std::int64_t end) {
    std::vector<C> scratch = row_scratch<T>(n);
    for (std::int64_t row = begin; row < end; ++row) {
      const C* const values = in_compute_type(x.data<T>() + row * n, n, scratch.data());
      if (eps != nullptr) {
        const C squares = sum_of(
            n, [](const auto& v) { return v * v; }, values);
        r[row] = C(1) / std::sqrt(squares / static_cast<C>(n) + static_cast<C>(*eps));
      }
      scale_row(n, values, r[row], static_cast<C>(offset), weight.data<C>(), y.data<T>() + row * n);
    }
  });
}

/// Each thread sums the gradient of weight over its own rows.
template <class T>
void rms_norm_gradients(double offset, const Operand& x, const Tensor& weight, const Tensor& rstd, const Tensor& dy,
                        const RmsNormGradients& to) {
  using C = Compute<T>;
  const std::int64_t heads = rstd.shape().back(), n = dy.shape().back() / heads;
  const RowPartition partition = partition_for_sums(dy);
  const bool of_weight = to.weight.defined();
  ParameterSums<C> sums(of_weight ? partition.parts : 0, 1, n, dy.device());
  std::vector<std::vector<C>> x_rows(static_cast<std::size_t>(partition.parts), row_scratch<T>(n)), dy_rows = x_rows;
  for_row_blocks(x, partition, [&](const RowBlock& block) {
    C* const x_scratch = x_rows[static_cast<std::size_t>(block.part)].data();
    C* const dy_scratch = dy_rows[static_cast<std::size_t>(block.part)].data();
    for (std::int64_t row = block.begin * heads; row < block.end * heads; ++row) {
      const C r = rstd.data<C>()[row];
      const C* const in = in_compute_type(block.values<T>() + (row - block.begin * heads) * n, n, x_scratch);
      const C* const g = in_compute_type(dy.data<T>() + row * n, n, dy_scratch);
      if (of_weight) add_weight_gradient(n, in, g, r, sums.of_next_row(block.part));
      if (to.x.defined())
        input_gradient(n, in, g, r, static_cast<C>(offset), weight.data<C>(), to.x.data<T>() + row * n, to.add_x);
    }
  });
  if (dy.device() != Device::meta) sums.add_up(0, to.weight);
}

const RegisterKernel cpu_rms_forward{
    rms_norm_forward, DeviceKind::cpu,
    [](double eps, double offset, const Tensor& x, const Tensor& weight, const Tensor& rstd, const Tensor& y) {
      with_float_type(y.dtype(), [&]<class T>(Type<T>) { normalise_rows<T>(&eps, offset, x, weight, rstd, y); });
    }};
const RegisterKernel cpu_rms_normalize{
    rms_norm_normalize, DeviceKind::cpu,
    [](double offset, const Tensor& x, const Tensor& weight, const Tensor& rstd, const Tensor& y) {
      with_float_type(y.dtype(), [&]<class T>(Type<T>) { normalise_rows<T>(nullptr, offset, x, weight, rstd, y); });
    }};
const RegisterKernel cpu_rms_backward{
    rms_norm_backward,
    {DeviceKind::cpu, DeviceKind::meta},
    [](double offset, const Operand& x, const Tensor& weight, const Tensor& rstd, const Tensor& dy,
       const RmsNormGradients& to) {
      with_float_type(dy.dtype(), [&]<class T>(Type<T>) { rms_norm_gradients<T>(offset, x, weight, rstd, dy, to); });
    }};

}  // namespace

Tensor RmsNorm::forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const {
  const Tensor &in = inputs[x], &w = inputs[weight];
  const DType compute = compute_type(in.dtype());
  expect(heads > 0 && in.shape().back() % heads == 0, "rms_norm of {} parts does not divide x {}", heads, in.shape());
  const Shape channels{in.shape().back() / heads};
  expect(w.shape() == channels && w.dtype() == compute, "rms_norm of {} {} expects a weight {} in {}, got {} in {}",
         name_of(in.dtype()), in.shape(), channels, name_of(compute), w.shape(), name_of(w.dtype()));
  Tensor y = empty_like(in);
  extra_outputs = {Tensor::empty({in.rows(), heads}, compute, in.device())};
  rms_norm_forward(y.device(), eps, offset, in, w, extra_outputs[rstd], y);
  return y;
}

void RmsNorm::rematerialize(const RematInputs<RmsNorm>& from, const Tensor& out) const {
  if (const Operand* const codes = from.codes<input(x)>())
    return rms_norm_of_codes(out.device(), offset, *codes, from.first_element(), from.get<input(weight)>(),
                             from.get<extra_output(rstd)>(), out);
  rms_norm_normalize(out.device(), offset, from.get<input(x)>(), from.get<input(weight)>(),
                     from.get<extra_output(rstd)>(), out);
}

void RmsNorm::backward(Tensor dy, const Saved<RmsNorm>& saved, Grads& grads) const {
  RmsNormGradients to{.add_x = grads[x].defined()};
  if (grads.wanted(x)) to.x = to.add_x ? grads[x] : reuse_or_empty(dy, dy.shape(), dy.dtype());
  if (grads.wanted(weight))
    to.weight = Tensor::empty({dy.shape().back() / heads}, compute_type(dy.dtype()), dy.device());
  rms_norm_backward(dy.device(), offset, saved.get<input(x)>(),
                    grads.wanted(x) ? saved.get<input(weight)>().whole() : Tensor(),
                    saved.get<extra_output(rstd)>().whole(), dy, to);
  if (grads.wanted(x)) grads[x] = to.x;
  if (grads.wanted(weight)) grads[weight] = to.weight;
}

}  // namespace lacuna
