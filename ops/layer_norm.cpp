#include "ops/layer_norm.h"

#include "ops/kernels/rowwise.h"
#include "ops/reduce.h"
#include "ops/row_blocks.h"

#include <cmath>

namespace lacuna {
namespace {

const RegisterOp<LayerNorm> layer_norm;

/// One row, [n] each. Forward and derivation both end here, so that their bits agree.
template <class T, class C>
[[gnu::noinline]] void normalise(std::int64_t n, const C* x, C mean, C rstd, const C* weight, const C* bias, T* y) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<T>((x[i] - mean) * rstd * weight[i] + bias[i]);
}

/// Gradients of weight and bias are sums over rows: one [2, C] a thread, which has so many rows together of each block,
/// added up in order at the end.
std::int64_t rows_together(std::int64_t width, int parts) {
  constexpr std::int64_t most = 8, elements = 1 << 18;  // of all parts together, of rows however wide
  return std::clamp<std::int64_t>(elements / std::max<std::int64_t>(width * parts, 1), 1, most);
}

template <class C>
struct ParameterSums {
  C* weight;  // [C] Σ dy·x̂
  C* bias;    // [C] Σ dy
};

/// Adds one row to the sums. x̂ = (x - mean)·rstd; x, dy: [n].
template <class C>
void add_row(std::int64_t n, const C* x, const C* dy, C mean, C rstd, const ParameterSums<C>& sums) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    sums.weight[i] += dy[i] * ((x[i] - mean) * rstd);
    sums.bias[i] += dy[i];
  }
}

/// dx of one row, and the row added to the sums. x, dy, weight: [n]; dx [n] may be dy's memory.
template <class T, class C>
void row_gradient(std::int64_t n, const C* x, const C* dy, C mean, C rstd, const C* weight,
                  const ParameterSums<C>& sums, T* dx, bool add) {
  C sum_g{}, sum_gx{};  // of g = dy·weight and of g·x̂
#pragma omp simd reduction(+ : sum_g, sum_gx)
  for (std::int64_t i = 0; i < n; ++i) {
    const C normalised = (x[i] - mean) * rstd, g = dy[i] * weight[i];
    sums.weight[i] += dy[i] * normalised;
    sums.bias[i] += dy[i];
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

}  // namespace

Tensor LayerNorm::forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const {
  const Tensor& in = inputs[x];
  const DType compute = compute_type(in.dtype());
  const Shape channels{in.shape().back()};
  for (const Input parameter : {weight, bias})
    expect(inputs[parameter].shape() == channels && inputs[parameter].dtype() == compute,
           "layer_norm of {} {} expects weight and bias {} in {}, got {} in {}", name_of(in.dtype()), in.shape(),
           channels, name_of(compute), inputs[parameter].shape(), name_of(inputs[parameter].dtype()));
  Tensor y = empty_like(in);
  extra_outputs = {Tensor::empty({in.rows(), 1}, compute, in.device()),
                   Tensor::empty({in.rows(), 1}, compute, in.device())};
  launch(in.device(), [&] {
    with_float_type(in.dtype(), [&]<class T>(Type<T>) {
      using C = Compute<T>;
      const std::int64_t n = in.shape().back();
      parallel_for(in.rows(), serial_rows(n), [&](std::int64_t begin, std::int64_t end) {
        std::vector<C> scratch = row_scratch<T>(n);
        const C scale = C(1) / static_cast<C>(n);
        for (std::int64_t row = begin; row < end; ++row) {
          const C* const values = in_compute_type(in.data<T>() + row * n, n, scratch.data());
          const C m = scale * sum_of(
                                  n, [](const auto& v) { return v; }, values);
          const C variance = scale * sum_of(
                                         n, [m](const auto& v) { return (v - m) * (v - m); }, values);
          const C r = C(1) / std::sqrt(variance + static_cast<C>(eps));
          normalise(n, values, m, r, inputs[weight].data<C>(), inputs[bias].data<C>(), y.data<T>() + row * n);
          extra_outputs[mean].data<C>()[row] = m;
          extra_outputs[rstd].data<C>()[row] = r;
        }
      });
    });
  });
  return y;
}

void LayerNorm::rematerialize(const RematInputs<LayerNorm>& from, const Tensor& out) const {
  launch(out.device(), [&] {
    with_float_type(out.dtype(), [&]<class T>(Type<T>) {
      using C = Compute<T>;
      const std::int64_t n = out.shape().back();
      const T* const in = from.get<input(x)>().template data<T>();
      const C* const m = from.get<extra_output(mean)>().template data<C>();
      const C* const r = from.get<extra_output(rstd)>().template data<C>();
      const C* const w = from.get<input(weight)>().template data<C>();
      const C* const b = from.get<input(bias)>().template data<C>();
      parallel_for(out.rows(), serial_rows(n), [&](std::int64_t begin, std::int64_t end) {
        std::vector<C> scratch = row_scratch<T>(n);
        for (std::int64_t row = begin; row < end; ++row)
          normalise(n, in_compute_type(in + row * n, n, scratch.data()), m[row], r[row], w, b, out.data<T>() + row * n);
      });
    });
  });
}

void LayerNorm::backward(Tensor dy, const Saved<LayerNorm>& saved, Grads& grads) const {
  const std::int64_t rows = dy.rows(), n = dy.shape().back();
  if (!grads.wanted(x) && !grads.wanted(weight)) {
    grads[bias] = sum_over_leading(dy, {n});
    return;
  }
  const DType compute = compute_type(dy.dtype());
  const bool add = grads[x].defined();
  const Tensor gamma = grads.wanted(x) ? saved.get<input(weight)>().whole() : Tensor();
  const Tensor means = saved.get<extra_output(mean)>().whole(), rstds = saved.get<extra_output(rstd)>().whole();
  const int parts = rows < serial_rows(n) ? 1 : threads();
  const Tensor sums = Tensor::zeros({parts, 2, n}, compute, dy.device(), Purpose::workspace);  // [parts, 2, C]
  if (grads.wanted(x) && !add) grads[x] = reuse_or_empty(dy, dy.shape(), dy.dtype());

  with_float_type(dy.dtype(), [&]<class T>(Type<T>) {
    using C = Compute<T>;
    const std::int64_t together = rows_together(n, parts);
    const RowPartition share{.count = rows, .block = together * parts, .unit = together, .parts = parts};
    std::vector<std::vector<C>> x_rows(static_cast<std::size_t>(parts), row_scratch<T>(n)), dy_rows = x_rows;
    C* const all_sums = sums.data<C>();
    for_row_blocks(saved.get<input(x)>(), share, [&](const RowBlock& run) {
      C* const x_scratch = x_rows[static_cast<std::size_t>(run.part)].data();
      C* const dy_scratch = dy_rows[static_cast<std::size_t>(run.part)].data();
      C* const own = all_sums + run.part * 2 * n;
      for (std::int64_t row = run.begin; row < run.end; ++row) {
        const C m = means.data<C>()[row], r = rstds.data<C>()[row];
        const C* const in = in_compute_type(run.values<T>() + (row - run.begin) * n, n, x_scratch);
        const C* const g = in_compute_type(dy.data<T>() + row * n, n, dy_scratch);
        if (grads.wanted(x))
          row_gradient(n, in, g, m, r, gamma.data<C>(), {own, own + n}, grads[x].template data<T>() + row * n, add);
        else
          add_row(n, in, g, m, r, ParameterSums<C>{own, own + n});
      }
    });
  });

  for (const Input parameter : {weight, bias}) {
    if (!grads.wanted(parameter)) continue;
    const Tensor total = Tensor::empty({n}, compute, dy.device());
    launch(dy.device(), [&] {
      with_compute_type(compute, [&]<class C>(Type<C>) {
        const C* const from = sums.data<C>() + (parameter == bias ? n : 0);
        C* const to = total.data<C>();
        for (std::int64_t i = 0; i < n; ++i) to[i] = from[i];
        for (std::int64_t k = 1; k < parts; ++k)
          for (std::int64_t i = 0; i < n; ++i) to[i] += from[k * 2 * n + i];
      });
    });
    grads[parameter] = total;
  }
}

}  // namespace lacuna
