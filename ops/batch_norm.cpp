#include "ops/batch_norm.h"

#include "core/parallel.h"
#include "ops/formulas.h"

#include <cmath>
#include <optional>

namespace lacuna {
namespace {

const RegisterOp<BatchNorm> batch_norm;
const RegisterOp<BatchNormRelu> batch_norm_relu;
const RegisterOp<BatchNormAddRelu> batch_norm_add_relu;
const RegisterOp<FrozenBatchNorm> frozen_batch_norm;
const RegisterOp<FrozenBatchNormRelu> frozen_batch_norm_relu;

/// Rows handled together: their single-precision sums stay accurate, their operands in the first-level cache.
std::int64_t rows_together(std::int64_t channels) { return std::max<std::int64_t>(16, 4096 / channels / 4 * 4); }

/// Calls `f(first row, rows, thread)` for runs of `rows_together` rows, a consecutive share of them on each thread.
template <class F>
void for_runs(std::int64_t rows, std::int64_t channels, F&& f) {
  const std::int64_t run = rows_together(channels);
  parallel_tasks((rows + run - 1) / run,
                 [&](std::int64_t task, int thread) { f(task * run, std::min(run, rows - task * run), thread); });
}

/// A vector of `channels` numbers in the compute type, scratch.
template <class S>
Tensor channel_scratch(std::int64_t vectors, std::int64_t channels, Device device) {
  return Tensor::empty({vectors, channels}, dtype_of<S>(), device, Purpose::workspace);
}

/// Sums over rows of two terms a channel, in double. `terms.at(first row, rows, thread)` prepares a run and yields
/// f(i, c) -> {first, second} for element i of the run, which lies in channel c. Bits depend on shape and threads
/// alone.
class ChannelSums {
 public:
  ChannelSums(std::int64_t rows, std::int64_t channels, Device device)
      : rows_(rows),
        channels_(channels),
        run_(Tensor::empty({threads(), 2, channels}, DType::f64, device, Purpose::workspace)),
        total_(Tensor::zeros({threads(), 2, channels}, DType::f64, device, Purpose::workspace)) {}

  template <class S, class Terms>
  void add(const Terms& terms) const {
    for_runs(rows_, channels_, [&](std::int64_t first, std::int64_t count, int thread) {
      S* const sums = reinterpret_cast<S*>(run_.data<double>() + thread * 2 * channels_);  // [2, C], room for double
      const auto term = terms.at(first, count, thread);
      std::fill_n(sums, 2 * channels_, S{});
      std::int64_t row = 0;
      for (; row + 4 <= count; row += 4) add_rows<4>(sums, sums + channels_, row * channels_, term);
      for (; row < count; ++row) add_rows<1>(sums, sums + channels_, row * channels_, term);
      double* const total = total_.data<double>() + thread * 2 * channels_;  // [2, C]
#pragma omp simd
      for (std::int64_t i = 0; i < 2 * channels_; ++i) total[i] += static_cast<double>(sums[i]);
    });
    double* const total = total_.data<double>();  // [threads, 2, C]
    for (int thread = 1; thread < threads(); ++thread)
      for (std::int64_t i = 0; i < 2 * channels_; ++i) total[i] += total[thread * 2 * channels_ + i];
  }

  double first(std::int64_t channel) const { return total_.data<double>()[channel]; }
  double second(std::int64_t channel) const { return total_.data<double>()[channels_ + channel]; }

 private:
  template <int rows, class S, class Term>
  void add_rows(S* first, S* second, std::int64_t base, const Term& term) const {
#pragma omp simd
    for (std::int64_t c = 0; c < channels_; ++c) {
      S a = first[c], b = second[c];
      for (int r = 0; r < rows; ++r) {
        const auto [p, q] = term(base + r * channels_ + c, c);
        a += p;
        b += q;
      }
      first[c] = a;
      second[c] = b;
    }
  }

  std::int64_t rows_, channels_;
  Tensor run_, total_;
};

template <class S>
struct Terms {
  S first, second;
};

/// Sums of x − shift and its square, the shift being the first row: free of cancellation in one reading of x.
template <class T>
struct StatisticsTerms {
  const T* x;  // [rows, C]
  std::int64_t channels;
  auto at(std::int64_t first, std::int64_t, int) const {
    return [in = x + first * channels, shift = x](std::int64_t i, std::int64_t c) {
      const auto d = to_compute(in[i]) - to_compute(shift[c]);
      return Terms{d, d * d};
    };
  }
};

void batch_statistics(const Tensor& x, const Tensor& mean, const Tensor& variance) {
  const std::int64_t rows = x.rows(), channels = x.shape().back();
  const ChannelSums sums(rows, channels, x.device());
  launch(x.device(), [&] {
    with_float_type(x.dtype(), [&]<class T>(Type<T>) {
      using S = Compute<T>;
      const T* const in = x.data<T>();
      sums.add<S>(StatisticsTerms<T>{in, channels});
      for (std::int64_t c = 0; c < channels; ++c) {
        const double offset = sums.first(c) / static_cast<double>(rows);
        const double spread = sums.second(c) / static_cast<double>(rows) - offset * offset;
        mean.data<S>()[c] = static_cast<S>(static_cast<double>(to_compute(in[c])) + offset);
        variance.data<S>()[c] = static_cast<S>(std::max(spread, 0.0));
      }
    });
  });
}

/// What turns x into the normalised and scaled value: (x − mean) · scale + bias.
struct ChannelMap {
  const Tensor &weight, &bias, &mean, &variance;  // [C]; bias is undefined where only `scale` is of interest
  double eps;

  template <class S>
  void scale(S* out) const {  // [C]
    for (std::int64_t c = 0; c < weight.count(); ++c) out[c] = weight.data<S>()[c] * static_cast<S>(rstd<S>(c));
  }
  template <class S>
  double rstd(std::int64_t c) const {
    return 1 / std::sqrt(static_cast<double>(variance.data<S>()[c]) + eps);
  }
};

template <class S>
struct Normalized {
  const S *mean, *scale, *bias;  // [C]
  S operator()(S x, std::int64_t c) const { return (x - mean[c]) * scale[c] + bias[c]; }
};

/// Writes `out` = activation(normalized(x) + residual) for the rows at hand; residual may be undefined.
template <bool relu>
void apply(const ChannelMap& channel, const Tensor& x, const Tensor& residual, const Tensor& out) {
  const std::int64_t channels = channel.weight.count();
  const std::int64_t rows = x.count() / channels;
  with_float_type(x.dtype(), [&]<class T>(Type<T>) {
    using S = Compute<T>;
    const Tensor scale = channel_scratch<S>(1, channels, x.device());
    launch(x.device(), [&] {
      channel.scale(scale.data<S>());
      const Normalized<S> normalized{channel.mean.data<S>(), scale.data<S>(), channel.bias.data<S>()};
      const auto run = [&](auto addend) {
        for_runs(rows, channels, [&](std::int64_t first, std::int64_t count, int) {
          for (std::int64_t row = first; row < first + count; ++row) {
            const T* const in = x.data<T>() + row * channels;  // [C]
            T* const to = out.data<T>() + row * channels;      // [C]
#pragma omp simd
            for (std::int64_t c = 0; c < channels; ++c) {
              const S value = normalized(to_compute(in[c]), c) + addend(row * channels + c);
              to[c] = static_cast<T>(relu ? formula::Relu{}(value) : value);
            }
          }
        });
      };
      if (residual.defined())
        run([r = residual.data<T>()](std::int64_t i) { return to_compute(r[i]); });
      else
        run([](std::int64_t) { return S{}; });
    });
  });
}

// Gates: which elements of dy pass the activation. `at(first row, rows, thread)` prepares a run of rows and yields a
// predicate on (element of the run, channel).

struct Open {
  auto at(std::int64_t, std::int64_t, int) const {
    return [](std::int64_t, std::int64_t) { return true; };
  }
};

template <class T>
struct PositiveNormalized {
  const T* x;  // [rows, C]
  Normalized<Compute<T>> normalized;
  std::int64_t channels;
  auto at(std::int64_t first, std::int64_t, int) const {
    return [in = x + first * channels, n = normalized](std::int64_t i, std::int64_t c) {
      return n(to_compute(in[i]), c) > 0;
    };
  }
};

template <class T>
struct PositiveValues {
  const T* values;  // [rows, C]
  std::int64_t channels;
  auto at(std::int64_t first, std::int64_t, int) const {
    return [v = values + first * channels](std::int64_t i, std::int64_t) { return to_compute(v[i]) > 0; };
  }
};

/// Bits spread to a number each, run by run, so that the loops that ask for them stay vector code.
struct PositiveBits {
  const std::uint8_t* bits;  // [ceil(rows · C / 8)]
  std::int32_t* spread;      // [threads, rows_together · C]
  std::int64_t channels;
  auto at(std::int64_t first, std::int64_t rows, int thread) const {
    std::int32_t* const out = spread + thread * rows_together(channels) * channels;
    const std::int64_t begin = first * channels, count = rows * channels;
    std::int64_t i = 0;
    for (; (begin + i) % 8 != 0 && i < count; ++i) out[i] = bits[(begin + i) / 8] >> ((begin + i) % 8) & 1;
    for (; i + 8 <= count; i += 8) {
      const std::int32_t byte = bits[(begin + i) / 8];
#pragma omp simd
      for (int bit = 0; bit < 8; ++bit) out[i + bit] = byte >> bit & 1;
    }
    for (; i < count; ++i) out[i] = bits[(begin + i) / 8] >> ((begin + i) % 8) & 1;
    return [out](std::int64_t k, std::int64_t) { return out[k] != 0; };
  }
};

/// Sums of g and g · (x − mean), g being dy behind the gate.
template <class T, class Gate>
struct GradientTerms {
  const T *dy, *x;  // [rows, C]
  const Compute<T>* mean;
  const Gate& gate;
  std::int64_t channels;
  auto at(std::int64_t first, std::int64_t rows, int thread) const {
    const std::int64_t begin = first * channels;
    return [g = dy + begin, in = x + begin, m = mean, passes = gate.at(first, rows, thread)](std::int64_t i,
                                                                                             std::int64_t c) {
      const auto value = passes(i, c) ? to_compute(g[i]) : Compute<T>{};
      return Terms{value, value * (to_compute(in[i]) - m[c])};
    };
  }
};

/// The backward pass of all forms. Undefined: what the form or the wanted gradients do not need.
struct Backward {
  Tensor dy{}, x{}, weight{}, bias{}, mean{}, variance{};
  std::optional<Signs> signs{};  // of the output; without them and with `bias`, the sign is found from x
  bool own_statistics = true;    // mean and variance are functions of x
  double eps = 0;
  Tensor *dx = nullptr, *dweight = nullptr, *dbias = nullptr, *dresidual = nullptr;  // null: not wanted

  std::int64_t rows() const { return dy.rows(); }
  std::int64_t channels() const { return dy.shape().back(); }

  void run() {
    const DType parameter_type = dy.dtype() == DType::f64 ? DType::f64 : DType::f32;
    const auto accumulated = [&](Tensor* grad) {
      if (grad != nullptr && !grad->defined()) *grad = Tensor::zeros({channels()}, parameter_type, dy.device());
    };
    accumulated(dweight);
    accumulated(dbias);
    with_float_type(dy.dtype(), [&]<class T>(Type<T>) { with_gate<T>(); });
  }

 private:
  template <class T>
  void with_gate() {
    using S = Compute<T>;
    if (signs && signs->bits.defined()) {
      const Tensor spread = Tensor::empty({threads(), rows_together(channels()), channels()}, DType::i32, dy.device(),
                                          Purpose::workspace);
      run<T>(PositiveBits{signs->bits.data<std::uint8_t>(), spread.data<std::int32_t>(), channels()});
    } else if (signs) {
      run<T>(PositiveValues<T>{signs->values.data<T>(), channels()});
    } else if (bias.defined()) {
      const Tensor scale = channel_scratch<S>(1, channels(), dy.device());
      launch(dy.device(), [&] { channel_map().scale(scale.data<S>()); });
      const Normalized<S> normalized{mean.data<S>(), scale.data<S>(), bias.data<S>()};
      run<T>(PositiveNormalized<T>{x.data<T>(), normalized, channels()});
    } else {
      run<T>(Open{});
    }
  }

  ChannelMap channel_map() const { return {weight, bias, mean, variance, eps}; }

  template <class T, class Gate>
  void run(const Gate& gate) {
    using S = Compute<T>;
    const std::int64_t n = channels();
    const bool dx_needs_sums = dx != nullptr && own_statistics;
    // dx = g · slope + (x − mean) · tilt + level
    const Tensor vectors = channel_scratch<S>(4, n, dy.device());  // [slope, tilt, level, mean or zeros]
    const auto vector = [&](int i) { return vectors.data<S>() + i * n; };
    if (dweight != nullptr || dbias != nullptr || dx_needs_sums) {
      const ChannelSums sums(rows(), n, dy.device());
      launch(dy.device(), [&] {
        if (mean.defined())
          std::copy_n(mean.data<S>(), n, vector(3));
        else
          std::fill_n(vector(3), n, S{});
        // Without x there is no use for the second sum: dy stands in, it is being read anyway.
        const T* const in = x.defined() ? x.data<T>() : dy.data<T>();
        sums.add<S>(GradientTerms<T, Gate>{dy.data<T>(), in, vector(3), gate, n});
        for (std::int64_t c = 0; c < n; ++c) {
          if (dbias != nullptr) dbias->data<S>()[c] += static_cast<S>(sums.first(c));
          if (dweight != nullptr) dweight->data<S>()[c] += static_cast<S>(sums.second(c) * channel_map().rstd<S>(c));
          if (dx_needs_sums) {
            const double rstd = channel_map().rstd<S>(c), slope = static_cast<double>(weight.data<S>()[c]) * rstd;
            vector(0)[c] = static_cast<S>(slope);
            vector(1)[c] = static_cast<S>(-slope * rstd * rstd * sums.second(c) / static_cast<double>(rows()));
            vector(2)[c] = static_cast<S>(-slope * sums.first(c) / static_cast<double>(rows()));
          }
        }
      });
    }
    // The residual's gradient is g itself and takes dy's place; without it dx does.
    if (dresidual != nullptr) *dresidual = reuse_or_empty(dy, dy.shape(), dy.dtype());
    if (dx != nullptr) *dx = dresidual != nullptr ? empty_like(dy) : reuse_or_empty(dy, dy.shape(), dy.dtype());
    launch(dy.device(), [&] {
      if (dx_needs_sums) {
        const T* const in = x.data<T>();
        write<T>(gate, [=, slope = vector(0), tilt = vector(1), level = vector(2), m = vector(3)](S g, std::int64_t i,
                                                                                                  std::int64_t c) {
          return g * slope[c] + ((to_compute(in[i]) - m[c]) * tilt[c] + level[c]);
        });
      } else if (dx != nullptr) {
        channel_map().scale(vector(0));
        write<T>(gate, [slope = vector(0)](S g, std::int64_t, std::int64_t c) { return g * slope[c]; });
      } else if (dresidual != nullptr) {
        write<T>(gate, [](S g, std::int64_t, std::int64_t) { return g; });
      }
    });
  }

  /// Writes the wanted ones of dx = formula(g, element, channel) and dresidual = g.
  template <class T, class Gate, class Formula>
  void write(const Gate& gate, const Formula& formula) const {
    using S = Compute<T>;
    const T* const from = dy.data<T>();                                            // [rows, C]
    T* const to_x = dx == nullptr ? nullptr : dx->data<T>();                       // [rows, C]
    T* const to_residual = dresidual == nullptr ? nullptr : dresidual->data<T>();  // [rows, C]
    const std::int64_t n = channels();
    const auto rows_of_outputs = [&](auto&& store) {
      for_runs(rows(), n, [&](std::int64_t first, std::int64_t count, int thread) {
        const auto passes = gate.at(first, count, thread);
        for (std::int64_t row = 0; row < count; ++row) {
#pragma omp simd
          for (std::int64_t c = 0; c < n; ++c) {
            const std::int64_t i = (first + row) * n + c;
            const S g = passes(row * n + c, c) ? to_compute(from[i]) : S{};
            store(i, c, g);
          }
        }
      });
    };
    const auto store_x = [=](std::int64_t i, std::int64_t c, S g) { to_x[i] = static_cast<T>(formula(g, i, c)); };
    const auto store_residual = [=](std::int64_t i, S g) { to_residual[i] = static_cast<T>(g); };
    if (to_residual == nullptr) {
      rows_of_outputs(store_x);
    } else if (to_x == nullptr) {
      rows_of_outputs([=](std::int64_t i, std::int64_t, S g) { store_residual(i, g); });
    } else {
      rows_of_outputs([=](std::int64_t i, std::int64_t c, S g) {
        store_x(i, c, g);
        store_residual(i, g);
      });
    }
  }
};

void expect_channels(std::string_view op, std::string_view what, const Tensor& vector, const Tensor& x) {
  const DType type = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  expect(vector.defined() && vector.shape() == Shape{x.shape().back()} && vector.dtype() == type,
         "{}: {} for an input of {} must be {} of [{}], got {}", op, what, x.shape(), name_of(type), x.shape().back(),
         vector.defined() ? fmt::format("{} of {}", name_of(vector.dtype()), vector.shape()) : "none");
}

void expect_residual(std::string_view op, const Tensor& residual, const Tensor& x) {
  expect(residual.shape() == x.shape() && residual.dtype() == x.dtype(),
         "{}: the residual must be {} of {} as the input is, got {} of {}", op, name_of(x.dtype()), x.shape(),
         name_of(residual.dtype()), residual.shape());
}

/// Forward with the statistics of the batch, which become aux 0 and 1.
template <class Op, bool relu>
Tensor forward_with_own_statistics(const Op& op, std::span<const Tensor> inputs, const Tensor& residual,
                                   std::vector<Tensor>& aux) {
  const Tensor &x = inputs[Op::x], &weight = inputs[Op::weight], &bias = inputs[Op::bias];
  expect_channels(Op::name, "weight", weight, x);
  expect_channels(Op::name, "bias", bias, x);
  if (residual.defined()) expect_residual(Op::name, residual, x);
  const Tensor mean = empty_like(weight), variance = empty_like(weight);
  batch_statistics(x, mean, variance);
  Tensor y = empty_like(x);
  apply<relu>({weight, bias, mean, variance, op.eps}, x, residual, y);
  aux = {mean, variance};
  return y;
}

template <class Op, bool relu>
Tensor forward_with_given_statistics(const Op& op, std::span<const Tensor> inputs, const Tensor& residual) {
  const Tensor& x = inputs[Op::x];
  expect_channels(Op::name, "weight", inputs[Op::weight], x);
  expect_channels(Op::name, "bias", inputs[Op::bias], x);
  expect_channels(Op::name, "mean", inputs[Op::mean], x);
  expect_channels(Op::name, "variance", inputs[Op::variance], x);
  if (residual.defined()) expect_residual(Op::name, residual, x);
  Tensor y = empty_like(x);
  apply<relu>({inputs[Op::weight], inputs[Op::bias], inputs[Op::mean], inputs[Op::variance], op.eps}, x, residual, y);
  return y;
}

/// Fills in what every form reads alike: what is wanted, and the saved tensors that those gradients need.
template <class Op, Source mean, Source variance>
Backward backward_of(const Op& op, Tensor dy, const Saved<Op>& saved, Grads& grads, bool own_statistics) {
  Backward pass{.dy = std::move(dy), .own_statistics = own_statistics, .eps = op.eps};
  if (grads.wanted(Op::x)) pass.dx = &grads[Op::x];
  if (grads.wanted(Op::weight)) pass.dweight = &grads[Op::weight];
  if (grads.wanted(Op::bias)) pass.dbias = &grads[Op::bias];
  if ((pass.dx != nullptr && own_statistics) || pass.dweight != nullptr) {
    pass.x = saved.template get<input(Op::x)>();
    pass.mean = saved.template get<mean>();
  }
  if (pass.dx != nullptr || pass.dweight != nullptr) pass.variance = saved.template get<variance>();
  if (pass.dx != nullptr) pass.weight = saved.template get<input(Op::weight)>();
  return pass;
}

}  // namespace

Tensor BatchNorm::forward(std::span<const Tensor> inputs, std::vector<Tensor>& aux) const {
  return forward_with_own_statistics<BatchNorm, false>(*this, inputs, {}, aux);
}
void BatchNorm::backward(Tensor dy, const Saved<BatchNorm>& saved, Grads& grads) const {
  backward_of<BatchNorm, aux(mean), aux(variance)>(*this, std::move(dy), saved, grads, true).run();
}
void BatchNorm::derive(const Derivation<BatchNorm>& from, const Tensor& out) const {
  apply<false>(
      {from.get<input(weight)>(), from.get<input(bias)>(), from.get<aux(mean)>(), from.get<aux(variance)>(), eps},
      from.get<input(x)>(), {}, out);
}

Tensor BatchNormRelu::forward(std::span<const Tensor> inputs, std::vector<Tensor>& aux) const {
  return forward_with_own_statistics<BatchNormRelu, true>(*this, inputs, {}, aux);
}
void BatchNormRelu::backward(Tensor dy, const Saved<BatchNormRelu>& saved, Grads& grads) const {
  Backward pass = backward_of<BatchNormRelu, aux(mean), aux(variance)>(*this, std::move(dy), saved, grads, true);
  pass.x = saved.get<input(x)>();
  pass.weight = saved.get<input(weight)>();
  pass.bias = saved.get<input(bias)>();
  pass.mean = saved.get<aux(mean)>();
  pass.variance = saved.get<aux(variance)>();
  pass.run();
}
void BatchNormRelu::derive(const Derivation<BatchNormRelu>& from, const Tensor& out) const {
  apply<true>(
      {from.get<input(weight)>(), from.get<input(bias)>(), from.get<aux(mean)>(), from.get<aux(variance)>(), eps},
      from.get<input(x)>(), {}, out);
}

Tensor BatchNormAddRelu::forward(std::span<const Tensor> inputs, std::vector<Tensor>& aux) const {
  expect(inputs[residual].defined(), "{}: the residual is missing; batch_norm_relu is the form without", name);
  return forward_with_own_statistics<BatchNormAddRelu, true>(*this, inputs, inputs[residual], aux);
}
void BatchNormAddRelu::backward(Tensor dy, const Saved<BatchNormAddRelu>& saved, Grads& grads) const {
  Backward pass = backward_of<BatchNormAddRelu, aux(mean), aux(variance)>(*this, std::move(dy), saved, grads, true);
  pass.signs = saved.signs<output>();
  if (grads.wanted(residual)) pass.dresidual = &grads[residual];
  pass.run();
}
void BatchNormAddRelu::derive(const Derivation<BatchNormAddRelu>& from, const Tensor& out) const {
  apply<true>(
      {from.get<input(weight)>(), from.get<input(bias)>(), from.get<aux(mean)>(), from.get<aux(variance)>(), eps},
      from.get<input(x)>(), from.get<input(residual)>(), out);
}

Tensor FrozenBatchNorm::forward(std::span<const Tensor> inputs) const {
  return forward_with_given_statistics<FrozenBatchNorm, false>(*this, inputs, {});
}
void FrozenBatchNorm::backward(Tensor dy, const Saved<FrozenBatchNorm>& saved, Grads& grads) const {
  backward_of<FrozenBatchNorm, input(mean), input(variance)>(*this, std::move(dy), saved, grads, false).run();
}
void FrozenBatchNorm::derive(const Derivation<FrozenBatchNorm>& from, const Tensor& out) const {
  apply<false>(
      {from.get<input(weight)>(), from.get<input(bias)>(), from.get<input(mean)>(), from.get<input(variance)>(), eps},
      from.get<input(x)>(), {}, out);
}

Tensor FrozenBatchNormRelu::forward(std::span<const Tensor> inputs) const {
  return forward_with_given_statistics<FrozenBatchNormRelu, true>(*this, inputs, inputs[residual]);
}
void FrozenBatchNormRelu::backward(Tensor dy, const Saved<FrozenBatchNormRelu>& saved, Grads& grads) const {
  Backward pass =
      backward_of<FrozenBatchNormRelu, input(mean), input(variance)>(*this, std::move(dy), saved, grads, false);
  pass.signs = saved.signs<output>();
  if (grads.wanted(residual)) pass.dresidual = &grads[residual];
  pass.run();
}
void FrozenBatchNormRelu::derive(const Derivation<FrozenBatchNormRelu>& from, const Tensor& out) const {
  apply<true>(
      {from.get<input(weight)>(), from.get<input(bias)>(), from.get<input(mean)>(), from.get<input(variance)>(), eps},
      from.get<input(x)>(), from.get<input(residual)>(), out);
}

}  // namespace lacuna
