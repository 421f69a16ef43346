#include "ops/batch_norm.h"

#include "ops/formulas.h"
#include "ops/kernels/channel_sums.h"
#include "ops/quantize/sign_mask.h"
#include "ops/row_blocks.h"

#include <cmath>
#include <vector>

namespace lacuna {
namespace {

const RegisterOp<BatchNorm> batch_norm;
const RegisterOp<BatchNormRelu> batch_norm_relu;
const RegisterOp<BatchNormAddRelu> batch_norm_add_relu;
const RegisterOp<FrozenBatchNorm> frozen_batch_norm;
const RegisterOp<FrozenBatchNormRelu> frozen_batch_norm_relu;

/// Sums of x − shift and its square in one reading of x. The shift is the first row: a mean far from zero costs no
/// digits as long as that row lies within some deviations of it.
template <class T>
struct StatisticsTerms {
  const T* x;               // [rows, width]
  const Compute<T>* shift;  // [width]
  std::int64_t width;
  auto at(std::int64_t first, std::int64_t, int) const {
    return [in = x + first * width, s = shift](std::int64_t i, std::int64_t c) {
      const auto d = to_compute(in[i]) - s[c];
      return ChannelTerms<Compute<T>>{d, d * d};
    };
  }
};

void batch_statistics(const Tensor& x, const Tensor& mean, const Tensor& variance) {
  const ChannelRows rows(x);
  const ChannelSums sums(rows, x.device());
  with_float_type(x.dtype(), [&]<class T>(Type<T>) {
    using S = Compute<T>;
    const Tensor shift = rows.scratch<S>(1, x.device());
    launch(x.device(), [&] {
      S* const start = shift.data<S>();  // [width]
      std::transform(x.data<T>(), x.data<T>() + rows.channels, start, [](T value) { return to_compute(value); });
      sums.add_all<S>(StatisticsTerms<T>{x.data<T>(), rows.repeated(start), rows.width});
      sums.finish();
      const auto count = static_cast<double>(x.rows());
      for (std::int64_t c = 0; c < rows.channels; ++c) {
        const double offset = sums.first(c) / count;
        mean.data<S>()[c] = static_cast<S>(static_cast<double>(start[c]) + offset);
        variance.data<S>()[c] = static_cast<S>(std::max(sums.second(c) / count - offset * offset, 0.0));
      }
    });
  });
}

/// What turns x into the normalised and scaled value, and back its gradient.
struct Affine {
  const Tensor &weight, &bias, &mean, &variance;  // [C]
  double eps;

  template <class S>
  double rstd(std::int64_t c) const {
    return rstd_of(variance.data<S>()[c]);
  }
  template <class S>
  double scale(std::int64_t c) const {
    return static_cast<double>(weight.data<S>()[c]) * rstd<S>(c);
  }
  /// The scales of all channels, in vectors: who derives a run of rows begins with them, and a run of wide rows has
  /// few.
  template <class S>
  void fill_scales(std::int64_t channels, S* out) const {
    const S *const weights = weight.data<S>(), *const variances = variance.data<S>();  // [C]
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c)
      out[c] = static_cast<S>(static_cast<double>(weights[c]) * rstd_of(variances[c]));
  }

 private:
  template <class S>
  double rstd_of(S variance_of_channel) const {
    return 1 / std::sqrt(static_cast<double>(variance_of_channel) + eps);
  }
};

/// (x − mean) · scale + bias.
template <class S>
struct Normalized {
  S *mean, *scale, *bias;  // [width]

  Normalized(const ChannelRows& rows, S* scratch)  // [3, width]
      : mean(scratch), scale(mean + rows.width), bias(scale + rows.width) {}

  void fill(const ChannelRows& rows, const Affine& affine) const {
    rows.repeated(affine.mean.data<S>(), mean);
    affine.fill_scales(rows.channels, scale);
    rows.repeated(scale);
    rows.repeated(affine.bias.data<S>(), bias);
  }
  S operator()(S x, std::int64_t c) const { return (x - mean[c]) * scale[c] + bias[c]; }
};

/// What becomes of a sum: itself, itself where it is positive, or itself where a bit is set.
enum class Activation : std::uint8_t { none, relu, gate };

/// Writes `out` = activation(normalized(x) + residual) for the rows at hand; residual may be undefined. `gates`: of
/// `gate`, the bits from `first` on, as quant::rectify reads them.
template <Activation activation>
void apply(const Affine& affine, const Tensor& x, const Tensor& residual, const Tensor& out,
           const std::uint8_t* gates = nullptr, std::int64_t first_gate = 0) {
  const ChannelRows rows(x.count() / affine.weight.count(), affine.weight.count());
  with_float_type(x.dtype(), [&]<class T>(Type<T>) {
    using S = Compute<T>;
    launch(x.device(), [&] {
      // No tensor: threads that derive rows of their own come here at once, and a peak is not to depend on how they
      // meet.
      std::vector<S> scratch(static_cast<std::size_t>(3 * rows.width));
      const Normalized<S> normalized(rows, scratch.data());
      normalized.fill(rows, affine);
      const auto run = [&](auto addend) {
        rows.for_blocks_in_order([&](std::int64_t first, std::int64_t count, int) {
          for (std::int64_t row = first; row < first + count; ++row) {
            const T* const in = x.data<T>() + row * rows.width;  // [width]
            T* const to = out.data<T>() + row * rows.width;      // [width]
#pragma omp simd
            for (std::int64_t c = 0; c < rows.width; ++c) {
              const S value = normalized(to_compute(in[c]), c) + addend(row * rows.width + c);
              to[c] = static_cast<T>(activation == Activation::relu ? formula::Relu{}(value) : value);
            }
          }
          if constexpr (activation == Activation::gate)  // while the run lies in the first cache
            quant::rectify(out.dtype(), out.raw() + first * rows.width * static_cast<std::int64_t>(sizeof(T)),
                           count * rows.width, gates, first_gate + first * rows.width);
        });
      };
      if (residual.defined())
        run([r = residual.data<T>()](std::int64_t i) { return to_compute(r[i]); });
      else
        run([](std::int64_t) { return S{}; });
    });
  });
}

/// Rows of max(normalized(x) + residual, 0) from x and residual, which may be approximate where signs were kept.
template <class Op>
void derive_rectified(const RematInputs<Op>& from, const Affine& affine, const Tensor& x, const Tensor& residual,
                      const Tensor& out) {
  expect(!from.signs().defined() || 8 * from.signs().count() >= from.first_element() + out.count(),
         "{} values from element {} on were given {} signs", out.count(), from.first_element(),
         8 * from.signs().count());
  if (!from.signs().defined()) return apply<Activation::relu>(affine, x, residual, out);
  apply<Activation::gate>(affine, x, residual, out, from.signs().template data<std::uint8_t>(), from.first_element());
}

// Gates: which elements of dy pass the activation. `at(first row, rows, thread, x)` prepares a run of rows, with what x
// holds there [rows, width], and yields a predicate on (element of the run, place in its row). `residual`: whether a
// form with this gate may have a residual.

struct Open {
  static constexpr bool residual = false;
  template <class T>
  auto at(std::int64_t, std::int64_t, int, const T*) const {
    return [](std::int64_t, std::int64_t) { return true; };
  }
};

template <class S>
struct PositiveNormalized {
  static constexpr bool residual = false;
  Normalized<S> normalized;
  template <class T>
  auto at(std::int64_t, std::int64_t, int, const T* x) const {
    return [x, n = normalized](std::int64_t i, std::int64_t c) { return n(to_compute(x[i]), c) > 0; };
  }
};

template <class T>
struct PositiveValues {
  static constexpr bool residual = true;
  const T* values;  // [rows, width]
  std::int64_t width;
  auto at(std::int64_t first, std::int64_t, int, const T*) const {
    return [v = values + first * width](std::int64_t i, std::int64_t) { return to_compute(v[i]) > 0; };
  }
};

/// Bits spread to a number each, run by run.
struct PositiveBits {
  static constexpr bool residual = true;
  const std::uint8_t* bits;  // [ceil(rows · width / 8)]
  std::int32_t* spread;      // [threads, together, width]
  ChannelRows rows;
  template <class T>
  auto at(std::int64_t first, std::int64_t count, int thread, const T*) const {
    std::int32_t* const out = spread + thread * rows.together() * rows.width;
    quant::unpack_signs(bits, first * rows.width, count * rows.width, out);
    return [out](std::int64_t i, std::int64_t) { return out[i] != 0; };
  }
};

/// Sums of g and g · (x − mean), g being dy behind the gate.
template <class T, class Gate>
struct GradientTerms {
  const T* dy;             // [rows, width]
  const T* x;              // [rows of the run, width]
  const Compute<T>* mean;  // [width]
  const Gate& gate;
  std::int64_t width;
  auto at(std::int64_t first, std::int64_t rows, int thread) const {
    return [g = dy + first * width, in = x, m = mean, passes = gate.at(first, rows, thread, x)](std::int64_t i,
                                                                                                std::int64_t c) {
      const Compute<T> all = to_compute(g[i]), value = passes(i, c) ? all : Compute<T>{};
      return ChannelTerms<Compute<T>>{value, value * (to_compute(in[i]) - m[c])};
    };
  }
};

/// The backward pass of all forms. Undefined: what the form or the wanted gradients do not need.
struct Backward {
  Tensor dy{}, weight{}, bias{}, mean{}, variance{};
  Operand x{};
  Operand signs{};             // of the output; without them and with `bias`, the sign is found from x
  bool own_statistics = true;  // mean and variance are functions of x
  double eps = 0;
  Tensor *dx = nullptr, *dweight = nullptr, *dbias = nullptr, *dresidual = nullptr;  // null: not wanted

  void run() {
    const auto prepare = [&](Tensor* grad) {
      if (grad != nullptr && !grad->defined())
        *grad = Tensor::zeros({dy.shape().back()}, compute_type(dy.dtype()), dy.device());
    };
    prepare(dweight);
    prepare(dbias);
    with_float_type(dy.dtype(), [&]<class T>(Type<T>) { with_gate<T>(ChannelRows(dy)); });
  }

 private:
  Affine affine() const { return {weight, bias, mean, variance, eps}; }

  template <class T>
  void with_gate(const ChannelRows& rows) {
    using S = Compute<T>;
    if (const auto* const mask = signs.as<SignForm>()) {
      const Tensor spread =
          Tensor::empty({threads(), rows.together(), rows.width}, DType::i32, dy.device(), Purpose::workspace);
      run<T>(rows, PositiveBits{mask->bits.data<std::uint8_t>(), spread.data<std::int32_t>(), rows});
    } else if (signs.defined()) {
      const Tensor values = signs.whole();
      run<T>(rows, PositiveValues<T>{values.data<T>(), rows.width});
    } else if (bias.defined()) {
      const Tensor scratch = rows.scratch<S>(3, dy.device());
      const Normalized<S> normalized(rows, scratch.data<S>());
      launch(dy.device(), [&] { normalized.fill(rows, affine()); });
      run<T>(rows, PositiveNormalized<S>{normalized});
    } else {
      run<T>(rows, Open{});
    }
  }

  /// Calls `f(first row, rows, thread, x)` for runs of `together` rows with what x holds there [rows, width]; without
  /// x, dy stands in for it: it is being read anyway.
  template <class T, class F>
  void for_blocks_in_order(const ChannelRows& rows, const F& f) const {
    if (!x.defined()) {
      launch(dy.device(), [&] {
        rows.for_blocks_in_order([&](std::int64_t first, std::int64_t count, int thread) {
          f(first, count, thread, dy.data<T>() + first * rows.width);
        });
      });
      return;
    }
    for_row_blocks(x, rows.share(), [&](const RowBlock& run) {
      const std::int64_t begin = run.begin / rows.repeats, end = run.end / rows.repeats;
      for (std::int64_t first = begin; first < end; first += rows.together())
        f(first, std::min(rows.together(), end - first), run.part, run.values<T>() + (first - begin) * rows.width);
    });
  }

  template <class T, class Gate>
  void run(const ChannelRows& rows, const Gate& gate) {
    using S = Compute<T>;
    expect(Gate::residual || dresidual == nullptr, "batch norm: expected signs of the output beside a residual");
    const bool dx_needs_sums = dx != nullptr && own_statistics;
    // dx = g · slope + (x − mean) · tilt + level
    const Tensor vectors = rows.scratch<S>(4, dy.device());  // [slope, tilt, level, mean or zeros]
    const auto vector = [at = vectors.data<S>(), &rows](int i) { return at == nullptr ? at : at + i * rows.width; };
    if (dweight != nullptr || dbias != nullptr || dx_needs_sums) {
      const ChannelSums sums(rows, dy.device());
      launch(dy.device(), [&] {
        if (mean.defined())
          rows.repeated(mean.data<S>(), vector(3));
        else
          std::fill_n(vector(3), rows.width, S{});
      });
      for_blocks_in_order<T>(rows, [&](std::int64_t first, std::int64_t count, int thread, const T* in) {
        sums.add<S>(first, count, thread, GradientTerms<T, Gate>{dy.data<T>(), in, vector(3), gate, rows.width});
      });
      launch(dy.device(), [&] {
        sums.finish();
        const auto count = static_cast<double>(dy.rows());
        for (std::int64_t c = 0; c < rows.channels; ++c) {
          if (dbias != nullptr) dbias->data<S>()[c] += static_cast<S>(sums.first(c));
          if (dweight != nullptr) dweight->data<S>()[c] += static_cast<S>(sums.second(c) * affine().rstd<S>(c));
          if (dx_needs_sums) {
            const double slope = affine().scale<S>(c), rstd = affine().rstd<S>(c);
            vector(0)[c] = static_cast<S>(slope);
            vector(1)[c] = static_cast<S>(-slope * rstd * rstd * sums.second(c) / count);
            vector(2)[c] = static_cast<S>(-slope * sums.first(c) / count);
          }
        }
      });
    }
    // The residual's gradient is g itself and takes dy's place; without it dx does.
    if (dresidual != nullptr) *dresidual = reuse_or_empty(dy, dy.shape(), dy.dtype());
    if (dx != nullptr) *dx = dresidual != nullptr ? empty_like(dy) : reuse_or_empty(dy, dy.shape(), dy.dtype());
    launch(dy.device(), [&] {
      if (dx_needs_sums) {
        for (int i = 0; i < 3; ++i) rows.repeated(vector(i));
      } else if (dx != nullptr) {
        for (std::int64_t c = 0; c < rows.channels; ++c) vector(0)[c] = static_cast<S>(affine().scale<S>(c));
        rows.repeated(vector(0));
      }
    });
    if (dx == nullptr && dresidual == nullptr) return;
    if (dx_needs_sums) {
      write<T>(rows, gate,
               [slope = vector(0), tilt = vector(1), level = vector(2), m = vector(3)](S g, S value, std::int64_t c) {
                 return g * slope[c] + ((value - m[c]) * tilt[c] + level[c]);
               });
    } else if (dx != nullptr) {
      write<T>(rows, gate, [slope = vector(0)](S g, S, std::int64_t c) { return g * slope[c]; });
    } else if constexpr (Gate::residual) {
      for_elements<T>(rows, gate,
                      [to = dresidual->data<T>()](std::int64_t i, std::int64_t, S g, S) { to[i] = static_cast<T>(g); });
    }
  }

  /// Writes dx = formula(g, x, place in its row) and, if it is wanted, dresidual = g.
  template <class T, class Gate, class Formula>
  void write(const ChannelRows& rows, const Gate& gate, const Formula& formula) const {
    using S = Compute<T>;
    T* const to_x = dx->data<T>();  // [rows, width]
    if constexpr (Gate::residual) {
      if (dresidual != nullptr) {
        T* const to_residual = dresidual->data<T>();  // [rows, width]
        return for_elements<T>(rows, gate, [=](std::int64_t i, std::int64_t c, S g, S value) {
          to_x[i] = static_cast<T>(formula(g, value, c));
          to_residual[i] = static_cast<T>(g);
        });
      }
    }
    for_elements<T>(rows, gate, [=](std::int64_t i, std::int64_t c, S g, S value) {
      to_x[i] = static_cast<T>(formula(g, value, c));
    });
  }

  /// Calls `store(element, place in its row, g, x)` for all elements, g being dy behind the gate.
  template <class T, class Gate, class Store>
  void for_elements(const ChannelRows& rows, const Gate& gate, const Store& store) const {
    using S = Compute<T>;
    const std::int64_t n = rows.width;
    for_blocks_in_order<T>(rows, [&](std::int64_t first, std::int64_t count, int thread, const T* in) {
      const auto passes = gate.at(first, count, thread, in);
      const T* const from = dy.data<T>();  // [rows, width]
      for (std::int64_t row = 0; row < count; ++row) {
#pragma omp simd
        for (std::int64_t c = 0; c < n; ++c) {
          const std::int64_t i = (first + row) * n + c;
          const S all = to_compute(from[i]);
          store(i, c, passes(row * n + c, c) ? all : S{}, to_compute(in[row * n + c]));
        }
      }
    });
  }
};

void expect_channels(std::string_view op, std::string_view what, const Tensor& vector, const Tensor& x) {
  const DType type = compute_type(x.dtype());
  expect(vector.defined() && vector.shape() == Shape{x.shape().back()} && vector.dtype() == type,
         "{}: {} for an input of {} must be {} of [{}], got {}", op, what, x.shape(), name_of(type), x.shape().back(),
         vector.defined() ? fmt::format("{} of {}", name_of(vector.dtype()), vector.shape()) : "none");
}

void expect_residual(std::string_view op, const Tensor& residual, const Tensor& x) {
  expect(residual.shape() == x.shape() && residual.dtype() == x.dtype(),
         "{}: the residual must be {} of {} as the input is, got {} of {}", op, name_of(x.dtype()), x.shape(),
         name_of(residual.dtype()), residual.shape());
}

/// Forward with the statistics of the batch, which become extra_outputs 0 and 1.
template <class Op, Activation activation>
Tensor forward_with_own_statistics(const Op& op, std::span<const Tensor> inputs, const Tensor& residual,
                                   std::vector<Tensor>& extra_outputs) {
  const Tensor &x = inputs[Op::x], &weight = inputs[Op::weight], &bias = inputs[Op::bias];
  expect_channels(Op::name, "weight", weight, x);
  expect_channels(Op::name, "bias", bias, x);
  if (residual.defined()) expect_residual(Op::name, residual, x);
  const Tensor mean = empty_like(weight), variance = empty_like(weight);
  batch_statistics(x, mean, variance);
  Tensor y = empty_like(x);
  apply<activation>({weight, bias, mean, variance, op.eps}, x, residual, y);
  extra_outputs = {mean, variance};
  return y;
}

template <class Op, Activation activation>
Tensor forward_with_given_statistics(const Op& op, std::span<const Tensor> inputs, const Tensor& residual) {
  const Tensor& x = inputs[Op::x];
  expect_channels(Op::name, "weight", inputs[Op::weight], x);
  expect_channels(Op::name, "bias", inputs[Op::bias], x);
  expect_channels(Op::name, "mean", inputs[Op::mean], x);
  expect_channels(Op::name, "variance", inputs[Op::variance], x);
  if (residual.defined()) expect_residual(Op::name, residual, x);
  Tensor y = empty_like(x);
  apply<activation>({inputs[Op::weight], inputs[Op::bias], inputs[Op::mean], inputs[Op::variance], op.eps}, x, residual,
                    y);
  return y;
}

/// Fills in what every form reads alike: what is wanted, and the saved tensors that those gradients need.
template <class Op, Source mean, Source variance>
Backward backward_of(const Op& op, Tensor dy, const Saved<Op>& saved, Grads& grads, bool own_statistics) {
  Backward pass{.own_statistics = own_statistics, .eps = op.eps};
  pass.dy = std::move(dy);
  if (grads.wanted(Op::x)) pass.dx = &grads[Op::x];
  if (grads.wanted(Op::weight)) pass.dweight = &grads[Op::weight];
  if (grads.wanted(Op::bias)) pass.dbias = &grads[Op::bias];
  if ((pass.dx != nullptr && own_statistics) || pass.dweight != nullptr) {
    pass.x = saved.template get<input(Op::x)>();
    pass.mean = saved.template get<mean>().whole();
  }
  if (pass.dx != nullptr || pass.dweight != nullptr) pass.variance = saved.template get<variance>().whole();
  if (pass.dx != nullptr) pass.weight = saved.template get<input(Op::weight)>().whole();
  return pass;
}

}  // namespace

Tensor BatchNorm::forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const {
  return forward_with_own_statistics<BatchNorm, Activation::none>(*this, inputs, {}, extra_outputs);
}
void BatchNorm::backward(Tensor dy, const Saved<BatchNorm>& saved, Grads& grads) const {
  backward_of<BatchNorm, extra_output(mean), extra_output(variance)>(*this, std::move(dy), saved, grads, true).run();
}
void BatchNorm::rematerialize(const RematInputs<BatchNorm>& from, const Tensor& out) const {
  apply<Activation::none>({from.get<input(weight)>(), from.get<input(bias)>(), from.get<extra_output(mean)>(),
                           from.get<extra_output(variance)>(), eps},
                          from.get<input(x)>(), {}, out);
}

Tensor BatchNormRelu::forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const {
  return forward_with_own_statistics<BatchNormRelu, Activation::relu>(*this, inputs, {}, extra_outputs);
}
void BatchNormRelu::backward(Tensor dy, const Saved<BatchNormRelu>& saved, Grads& grads) const {
  Backward pass =
      backward_of<BatchNormRelu, extra_output(mean), extra_output(variance)>(*this, std::move(dy), saved, grads, true);
  pass.x = saved.get<input(x)>();
  pass.weight = saved.get<input(weight)>().whole();
  pass.mean = saved.get<extra_output(mean)>().whole();
  pass.variance = saved.get<extra_output(variance)>().whole();
  pass.signs = saved.get<output>();
  if (!pass.signs.defined()) pass.bias = saved.get<input(bias)>().whole();
  pass.run();
}
void BatchNormRelu::rematerialize(const RematInputs<BatchNormRelu>& from, const Tensor& out) const {
  derive_rectified(from,
                   {from.get<input(weight)>(), from.get<input(bias)>(), from.get<extra_output(mean)>(),
                    from.get<extra_output(variance)>(), eps},
                   from.get<input(x)>(), {}, out);
}

Tensor BatchNormAddRelu::forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const {
  expect(inputs[residual].defined(), "{}: the residual is missing; batch_norm_relu is the form without", name);
  return forward_with_own_statistics<BatchNormAddRelu, Activation::relu>(*this, inputs, inputs[residual],
                                                                         extra_outputs);
}
void BatchNormAddRelu::backward(Tensor dy, const Saved<BatchNormAddRelu>& saved, Grads& grads) const {
  Backward pass = backward_of<BatchNormAddRelu, extra_output(mean), extra_output(variance)>(*this, std::move(dy), saved,
                                                                                            grads, true);
  pass.signs = saved.get<output>();
  if (grads.wanted(residual)) pass.dresidual = &grads[residual];
  pass.run();
}
void BatchNormAddRelu::rematerialize(const RematInputs<BatchNormAddRelu>& from, const Tensor& out) const {
  derive_rectified(from,
                   {from.get<input(weight)>(), from.get<input(bias)>(), from.get<extra_output(mean)>(),
                    from.get<extra_output(variance)>(), eps},
                   from.get<input(x)>(), from.get<input(residual)>(), out);
}

Tensor FrozenBatchNorm::forward(std::span<const Tensor> inputs) const {
  return forward_with_given_statistics<FrozenBatchNorm, Activation::none>(*this, inputs, {});
}
void FrozenBatchNorm::backward(Tensor dy, const Saved<FrozenBatchNorm>& saved, Grads& grads) const {
  backward_of<FrozenBatchNorm, input(mean), input(variance)>(*this, std::move(dy), saved, grads, false).run();
}
void FrozenBatchNorm::rematerialize(const RematInputs<FrozenBatchNorm>& from, const Tensor& out) const {
  apply<Activation::none>(
      {from.get<input(weight)>(), from.get<input(bias)>(), from.get<input(mean)>(), from.get<input(variance)>(), eps},
      from.get<input(x)>(), {}, out);
}

Tensor FrozenBatchNormRelu::forward(std::span<const Tensor> inputs) const {
  return forward_with_given_statistics<FrozenBatchNormRelu, Activation::relu>(*this, inputs, inputs[residual]);
}
void FrozenBatchNormRelu::backward(Tensor dy, const Saved<FrozenBatchNormRelu>& saved, Grads& grads) const {
  Backward pass =
      backward_of<FrozenBatchNormRelu, input(mean), input(variance)>(*this, std::move(dy), saved, grads, false);
  pass.signs = saved.get<output>();
  if (grads.wanted(residual)) pass.dresidual = &grads[residual];
  pass.run();
}
void FrozenBatchNormRelu::rematerialize(const RematInputs<FrozenBatchNormRelu>& from, const Tensor& out) const {
  derive_rectified(
      from,
      {from.get<input(weight)>(), from.get<input(bias)>(), from.get<input(mean)>(), from.get<input(variance)>(), eps},
      from.get<input(x)>(), from.get<input(residual)>(), out);
}

}  // namespace lacuna
