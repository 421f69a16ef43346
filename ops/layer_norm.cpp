#include "ops/layer_norm.h"

#include "ops/rowwise.h"

#include <cmath>

namespace lacuna {
namespace {

const RegisterOp<LayerNorm> layer_norm;

/// One row, [n] each. Forward and derivation both end here, so that their bits agree.
template <class T, class C>
[[gnu::noinline]] void normalise(std::int64_t n, const C* x, C mean, C rstd, const C* weight, const C* bias, T* y) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<T>((x[i] - mean) * rstd * weight[i] + bias[i]);
}

/// Gradients of weight and bias are sums over rows: one [2, C] a thread, added up in order at the end. So many rows
/// together go to one thread and the next to the next: which one depends on the row's number alone, so that the bits
/// are the same whether x comes whole or run by run.
constexpr std::int64_t rows_together = 8;

template <class C>
struct ParameterSums {
  C* weight;  // [C] Σ dy·x̂, or null where nobody wants it
  C* bias;    // [C] Σ dy, or null
};

template <class T>
struct Rows {
  const T* x;  // [rows from `first` on, C], or null where it is not needed
  std::int64_t first;
  const T* dy;             // [rows, C]
  const Compute<T>* mean;  // [rows]
  const Compute<T>* rstd;
  const Compute<T>* weight;  // [C]; null where dx is not wanted
  T* dx;                     // [rows, C], may be dy; null where it is not wanted
  bool add;                  // to what dx holds

  void run(std::int64_t begin, std::int64_t end, std::int64_t n, const ParameterSums<Compute<T>>& sums,
           Compute<T>* x_scratch, Compute<T>* dy_scratch) const {
    using C = Compute<T>;
    for (std::int64_t row = begin; row < end; ++row) {
      const C* const g = in_compute_type(dy + row * n, n, dy_scratch);
      if (sums.bias != nullptr) {
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) sums.bias[i] += g[i];
      }
      if (x == nullptr) continue;
      const C* const in = in_compute_type(x + (row - first) * n, n, x_scratch);
      const C m = mean[row], r = rstd[row];
      if (sums.weight != nullptr) {
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) sums.weight[i] += g[i] * ((in[i] - m) * r);
      }
      if (dx == nullptr) continue;
      const C scale = C(1) / static_cast<C>(n);
      const C mean_g = scale * sum_of<C>(n, [&](std::int64_t i) { return g[i] * weight[i]; });
      const C mean_gx = scale * sum_of<C>(n, [&](std::int64_t i) { return g[i] * weight[i] * ((in[i] - m) * r); });
      T* const out = dx + row * n;
      const auto gradient = [&](std::int64_t i) { return r * (g[i] * weight[i] - mean_g - (in[i] - m) * r * mean_gx); };
      if (add) {
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(to_compute(out[i]) + gradient(i));
      } else {
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(gradient(i));
      }
    }
  }
};

}  // namespace

Tensor LayerNorm::forward(std::span<const Tensor> inputs, std::vector<Tensor>& aux) const {
  const Tensor& in = inputs[x];
  const DType compute = compute_type(in.dtype());
  const Shape channels{in.shape().back()};
  for (const Input parameter : {weight, bias})
    expect(inputs[parameter].shape() == channels && inputs[parameter].dtype() == compute,
           "layer_norm of {} {} expects weight and bias {} in {}, got {} in {}", name_of(in.dtype()), in.shape(),
           channels, name_of(compute), inputs[parameter].shape(), name_of(inputs[parameter].dtype()));
  Tensor y = empty_like(in);
  aux = {Tensor::empty({in.rows(), 1}, compute, in.device()), Tensor::empty({in.rows(), 1}, compute, in.device())};
  launch(in.device(), [&] {
    with_float_type(in.dtype(), [&]<class T>(Type<T>) {
      using C = Compute<T>;
      const std::int64_t n = in.shape().back();
      parallel_for(in.rows(), serial_rows(n), [&](std::int64_t begin, std::int64_t end) {
        std::vector<C> scratch = row_scratch<T>(n);
        const C scale = C(1) / static_cast<C>(n);
        for (std::int64_t row = begin; row < end; ++row) {
          const C* const values = in_compute_type(in.data<T>() + row * n, n, scratch.data());
          const C m = scale * sum_of<C>(n, [&](std::int64_t i) { return values[i]; });
          const C variance = scale * sum_of<C>(n, [&](std::int64_t i) { return (values[i] - m) * (values[i] - m); });
          const C r = C(1) / std::sqrt(variance + static_cast<C>(eps));
          normalise(n, values, m, r, inputs[weight].data<C>(), inputs[bias].data<C>(), y.data<T>() + row * n);
          aux[mean].data<C>()[row] = m;
          aux[rstd].data<C>()[row] = r;
        }
      });
    });
  });
  return y;
}

void LayerNorm::derive(const Derivation<LayerNorm>& from, const Tensor& out) const {
  launch(out.device(), [&] {
    with_float_type(out.dtype(), [&]<class T>(Type<T>) {
      using C = Compute<T>;
      const std::int64_t n = out.shape().back();
      const T* const in = from.get<input(x)>().template data<T>();
      const C* const m = from.get<aux(mean)>().template data<C>();
      const C* const r = from.get<aux(rstd)>().template data<C>();
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
  const DType compute = compute_type(dy.dtype());
  const bool reads_x = grads.wanted(x) || grads.wanted(weight);
  const bool add = grads[x].defined();
  const Tensor gamma = grads.wanted(x) ? saved.get<input(weight)>() : Tensor();
  const Tensor means = reads_x ? saved.get<aux(mean)>() : Tensor();
  const Tensor rstds = reads_x ? saved.get<aux(rstd)>() : Tensor();
  const int parts = rows < serial_rows(n) ? 1 : threads();
  Tensor sums;  // [parts, 2, C]
  if (grads.wanted(weight) || grads.wanted(bias))
    sums = Tensor::zeros({parts, 2, n}, compute, dy.device(), Purpose::workspace);
  if (grads.wanted(x) && !add) grads[x] = reuse_or_empty(dy, dy.shape(), dy.dtype());

  const std::int64_t step = reads_x ? saved.rows_at_once<input(x)>() : rows;
  for (std::int64_t first = 0; first < rows; first += step) {
    const std::int64_t last = std::min(rows, first + step);
    const Tensor values = reads_x ? saved.rows<input(x)>(first, last) : Tensor();  // [last - first, C]
    launch(dy.device(), [&] {
      with_float_type(dy.dtype(), [&]<class T>(Type<T>) {
        using C = Compute<T>;
        const Rows<T> block{.x = reads_x ? values.data<T>() : nullptr,
                            .first = first,
                            .dy = dy.data<T>(),
                            .mean = reads_x ? means.data<C>() : nullptr,
                            .rstd = reads_x ? rstds.data<C>() : nullptr,
                            .weight = grads.wanted(x) ? gamma.data<C>() : nullptr,
                            .dx = grads.wanted(x) ? grads[x].template data<T>() : nullptr,
                            .add = add};
        parallel_tasks(parts, [&](std::int64_t task, int) {
          std::vector<C> x_scratch = row_scratch<T>(n), dy_scratch = row_scratch<T>(n);
          C* const own = sums.defined() ? sums.data<C>() + task * 2 * n : nullptr;
          const ParameterSums<C> into{.weight = grads.wanted(weight) ? own : nullptr,
                                      .bias = grads.wanted(bias) ? own + n : nullptr};
          for (std::int64_t group = first / rows_together; group * rows_together < last; ++group)
            if (group % parts == task)
              block.run(std::max(first, group * rows_together), std::min(last, (group + 1) * rows_together), n, into,
                        x_scratch.data(), dy_scratch.data());
        });
      });
    });
  }

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
