// Batch normalisation on the CPU.
#include "core/parallel.h"
#include "ops/formulas.h"
#include "ops/kernels/channel_sums.h"
#include "ops/norms/batch_norm_kernels.h"
#include "ops/norms/joined_statistics.h"
#include "ops/quantize/sign_mask.h"
#include "ops/row_blocks.h"

#include <cmath>
#include <functional>
#include <vector>

namespace lacuna {
namespace {

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

template <class T>
void statistics_on_cpu(const Tensor& x, const Tensor& mean, const Tensor& variance) {
  using S = Compute<T>;
  const ChannelRows rows(x);
  const ChannelSums sums(rows, x.device());
  const Tensor shift = rows.scratch<S>(1, x.device());
  if (x.device() == Device::meta) return;
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
}

double rstd_of(double variance, double eps) { return 1 / std::sqrt(variance + eps); }

template <class S>
double rstd_of_channel(const Tensor& variance, double eps, std::int64_t c) {
  return rstd_of(static_cast<double>(variance.data<S>()[c]), eps);
}

/// (x − mean) · scale + bias.
template <class S>
struct Normalized {
  S *mean, *scale, *bias;  // [width]

  Normalized(const ChannelRows& rows, S* scratch)  // [3, width]
      : mean(scratch), scale(mean + rows.width), bias(scale + rows.width) {}

  [[gnu::noinline]] void fill(const ChannelRows& rows, const BatchNormChannels& of) const {
    const S *const weights = of.weight.data<S>(), *const variances = of.variance.data<S>();  // [C]
    rows.repeated(of.mean.data<S>(), mean);
#pragma omp simd
    for (std::int64_t c = 0; c < rows.channels; ++c)
      scale[c] = static_cast<S>(static_cast<double>(weights[c]) * rstd_of(static_cast<double>(variances[c]), of.eps));
    rows.repeated(scale);
    rows.repeated(of.bias.data<S>(), bias);
  }
  S operator()(S x, std::int64_t c) const { return (x - mean[c]) * scale[c] + bias[c]; }
};

enum class Activation : std::uint8_t { none, relu, signs };

template <Activation activation, class T>
void apply_on_cpu(const BatchNormChannels& channels, const Tensor& x, const Tensor& residual, const Rectify& rectify,
                  const Tensor& y) {
  using S = Compute<T>;
  const ChannelRows rows(x.count() / channels.weight.count(), channels.weight.count());
  // No tensor: threads that rematerialize rows call this at the same time, and the peak would depend on how they meet.
  std::vector<S> scratch(static_cast<std::size_t>(3 * rows.width));
  const Normalized<S> normalized(rows, scratch.data());
  normalized.fill(rows, channels);
  const auto run = [&](auto addend) {
    rows.for_blocks_in_order([&](std::int64_t first, std::int64_t count, int) {
      for (std::int64_t row = first; row < first + count; ++row) {
        const T* const in = x.data<T>() + row * rows.width;  // [width]
        T* const to = y.data<T>() + row * rows.width;        // [width]
#pragma GCC ivdep
        for (std::int64_t c = 0; c < rows.width; ++c) {
          const S value = normalized(to_compute(in[c]), c) + addend(row * rows.width + c);
          to[c] = static_cast<T>(activation == Activation::relu ? formula::Relu{}(value) : value);
        }
      }
      if constexpr (activation == Activation::signs)  // while the block is in the first cache
        quant::rectify(y.dtype(), y.raw() + first * rows.width * static_cast<std::int64_t>(sizeof(T)),
                       count * rows.width, rectify.signs.data<std::uint8_t>(),
                       rectify.first_element + first * rows.width);
    });
  };
  if (residual.defined())
    run([r = residual.data<T>()](std::int64_t i) { return to_compute(r[i]); });
  else
    run([](std::int64_t) { return S{}; });
}

// Gates: which elements of dy pass the activation. `at(first row, rows, thread, x)` prepares a block of rows, with
// the values of x there [rows, width], and returns a predicate on (element of the block, place in its row). `residual`:
// whether a form with this gate may have a residual.

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

/// Sign bits, unpacked block by block to one number each.
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
  const T* x;              // [rows of the block, width]
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

/// The backward pass of all forms.
template <class T>
class BackwardOnCpu {
  using S = Compute<T>;

 public:
  BackwardOnCpu(const BatchNormBackward& given, const BatchNormGradients& to)
      : given_(given), to_(to), dy_(given.dy), rows_(given.dy) {}

  void run() const {
    if (const auto* const mask = given_.signs.as<SignForm>()) {
      const Tensor spread =
          Tensor::empty({threads(), rows_.together(), rows_.width}, DType::i32, dy_.device(), Purpose::workspace);
      run(PositiveBits{mask->bits.data<std::uint8_t>(), spread.data<std::int32_t>(), rows_});
    } else if (given_.signs.defined()) {
      const Tensor values = given_.signs.whole();
      run(PositiveValues<T>{values.data<T>(), rows_.width});
    } else if (given_.bias.defined()) {
      const Tensor scratch = rows_.template scratch<S>(3, dy_.device());
      const Normalized<S> normalized(rows_, scratch.data<S>());
      if (!is_meta()) normalized.fill(rows_, {given_.weight, given_.bias, given_.mean, given_.variance, given_.eps});
      run(PositiveNormalized<S>{normalized});
    } else {
      run(Open{});
    }
  }

 private:
  bool is_meta() const { return dy_.device() == Device::meta; }
  double rstd(std::int64_t c) const { return rstd_of_channel<S>(given_.variance, given_.eps, c); }
  double scale(std::int64_t c) const { return static_cast<double>(given_.weight.data<S>()[c]) * rstd(c); }

  /// Calls `f(first row, rows, thread, x)` for blocks of `together` rows with the values of x there [rows, width];
  /// without x, dy stands in for it: it is being read anyway. One function for all forms, which compile slowly.
  void for_blocks_in_order(const std::function<void(std::int64_t, std::int64_t, int, const T*)>& f) const {
    if (given_.x.defined())
      for_row_blocks(given_.x, rows_.partition(), [&](const RowBlock& block) {
        const std::int64_t begin = block.begin / rows_.repeats, end = block.end / rows_.repeats;
        for (std::int64_t first = begin; first < end; first += rows_.together())
          f(first, std::min(rows_.together(), end - first), block.part,
            block.values<T>() + (first - begin) * rows_.width);
      });
    else if (!is_meta())
      rows_.for_blocks_in_order([&](std::int64_t first, std::int64_t count, int thread) {
        f(first, count, thread, dy_.data<T>() + first * rows_.width);
      });
  }

  template <class Gate>
  void run(const Gate& gate) const {
    expect(Gate::residual || !to_.residual.defined(), "batch norm: expected signs of the output beside a residual");
    const bool dx_needs_sums = to_.x.defined() && given_.own_statistics;
    // dx = g · slope + (x − mean) · tilt + level
    const Tensor vectors = rows_.template scratch<S>(4, dy_.device());
    const Vectors own(vectors.data<S>(), rows_.width);
    if (to_.weight.defined() || to_.bias.defined() || dx_needs_sums) {
      const ChannelSums sums(rows_, dy_.device());
      fill_mean(own);
      for_blocks_in_order([&](std::int64_t first, std::int64_t count, int thread, const T* in) {
        sums.add<S>(first, count, thread, GradientTerms<T, Gate>{dy_.data<T>(), in, own.mean, gate, rows_.width});
      });
      finish(sums, dx_needs_sums, own);
    } else {
      fill_slope(own);
    }
    if (dx_needs_sums) {
      write(gate, [own](S g, S value, std::int64_t c) {
        return g * own.slope[c] + ((value - own.mean[c]) * own.tilt[c] + own.level[c]);
      });
    } else if (to_.x.defined()) {
      write(gate, [slope = own.slope](S g, S, std::int64_t c) { return g * slope[c]; });
    } else if constexpr (Gate::residual) {
      if (to_.residual.defined())
        for_elements(
            gate, [to = to_.residual.data<T>()](std::int64_t i, std::int64_t, S g, S) { to[i] = static_cast<T>(g); });
    }
  }

  struct Vectors {                           // [width]
    Vectors(S* scratch, std::int64_t width)  // [4, width], or null
        : slope(scratch),
          tilt(scratch == nullptr ? nullptr : slope + width),
          level(scratch == nullptr ? nullptr : tilt + width),
          mean(scratch == nullptr ? nullptr : level + width) {}
    S *slope, *tilt, *level, *mean;
  };
  [[gnu::noinline]] void fill_mean(const Vectors& to) const {
    if (is_meta()) return;
    if (given_.mean.defined())
      rows_.repeated(given_.mean.data<S>(), to.mean);
    else
      std::fill_n(to.mean, rows_.width, S{});
  }
  [[gnu::noinline]] void fill_slope(const Vectors& to) const {
    if (is_meta() || !to_.x.defined()) return;
    for (std::int64_t c = 0; c < rows_.channels; ++c) to.slope[c] = static_cast<S>(scale(c));
    rows_.repeated(to.slope);
  }
  /// Adds the gradients of weight and bias, and writes slope, tilt and level of dx.
  [[gnu::noinline]] void finish(const ChannelSums& sums, bool dx_needs_sums, const Vectors& to) const {
    if (is_meta()) return;
    sums.finish();
    // dx needs the sums over the rows of all ranks; the gradients of weight and bias are summed later.
    std::vector<double> of_all;  // [2, C]
    for (std::int64_t c = 0; c < rows_.channels; ++c) of_all.push_back(sums.first(c));
    for (std::int64_t c = 0; c < rows_.channels; ++c) of_all.push_back(sums.second(c));
    auto count = static_cast<double>(dy_.rows());
    if (given_.ranks != nullptr && dx_needs_sums) {
      const Tensor joined = Tensor::from(std::span<const double>(of_all), {std::ssize(of_all)});
      given_.ranks->all_reduce(joined);
      of_all = joined.to_vector();
      count *= given_.ranks->size();
    }
    for (std::int64_t c = 0; c < rows_.channels; ++c) {
      if (to_.bias.defined()) to_.bias.data<S>()[c] += static_cast<S>(sums.first(c));
      if (to_.weight.defined()) to_.weight.data<S>()[c] += static_cast<S>(sums.second(c) * rstd(c));
      if (dx_needs_sums) {
        const double slope = scale(c), r = rstd(c);
        to.slope[c] = static_cast<S>(slope);
        const auto at = static_cast<std::size_t>(c), channels = static_cast<std::size_t>(rows_.channels);
        to.tilt[c] = static_cast<S>(-slope * r * r * of_all[channels + at] / count);
        to.level[c] = static_cast<S>(-slope * of_all[at] / count);
      }
    }
    if (!dx_needs_sums) return fill_slope(to);
    for (S* const vector : {to.slope, to.tilt, to.level}) rows_.repeated(vector);
  }

  /// Writes dx = formula(g, x, place in its row) and, if it is wanted, the residual's gradient g.
  template <class Gate, class Formula>
  void write(const Gate& gate, const Formula& formula) const {
    T* const to_x = to_.x.data<T>();  // [rows, width]
    if constexpr (Gate::residual) {
      if (to_.residual.defined()) {
        T* const to_residual = to_.residual.data<T>();  // [rows, width]
        return for_elements(gate, [=](std::int64_t i, std::int64_t c, S g, S value) {
          to_x[i] = static_cast<T>(formula(g, value, c));
          to_residual[i] = static_cast<T>(g);
        });
      }
    }
    for_elements(gate,
                 [=](std::int64_t i, std::int64_t c, S g, S value) { to_x[i] = static_cast<T>(formula(g, value, c)); });
  }

  /// Calls `store(element, place in its row, g, x)` for all elements, g being dy behind the gate.
  template <class Gate, class Store>
  void for_elements(const Gate& gate, const Store& store) const {
    const std::int64_t n = rows_.width;
    for_blocks_in_order([&](std::int64_t first, std::int64_t count, int thread, const T* in) {
      const auto passes = gate.at(first, count, thread, in);
      const T* const from = dy_.data<T>();  // [rows, width]
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

  const BatchNormBackward& given_;
  const BatchNormGradients& to_;
  const Tensor& dy_;
  ChannelRows rows_;
};

const RegisterKernel cpu_statistics{
    batch_norm_statistics,
    {DeviceKind::cpu, DeviceKind::meta},
    [](const Tensor& x, const Tensor& mean, const Tensor& variance) {
      with_float_type(x.dtype(), [&]<class T>(Type<T>) { statistics_on_cpu<T>(x, mean, variance); });
    }};
const RegisterKernel cpu_apply{batch_norm_apply, DeviceKind::cpu,
                               [](const BatchNormChannels& channels, const Tensor& x, const Tensor& residual,
                                  const Rectify& rectify, const Tensor& y) {
                                 with_float_type(x.dtype(), [&]<class T>(Type<T>) {
                                   if (rectify.signs.defined())
                                     apply_on_cpu<Activation::signs, T>(channels, x, residual, rectify, y);
                                   else if (rectify.relu)
                                     apply_on_cpu<Activation::relu, T>(channels, x, residual, rectify, y);
                                   else
                                     apply_on_cpu<Activation::none, T>(channels, x, residual, rectify, y);
                                 });
                               }};
template <class T>
void join_on_cpu(const Tensor& all, const Tensor& mean, const Tensor& variance) {
  const std::int64_t ranks = all.shape().front(), channels = mean.count();
  for (std::int64_t c = 0; c < channels; ++c) {
    const formula::JoinedStatistics joined = formula::joined_statistics(all.data<const T>() + c, ranks, channels);
    mean.data<T>()[c] = static_cast<T>(joined.mean);
    variance.data<T>()[c] = static_cast<T>(joined.variance);
  }
}
const RegisterKernel cpu_join{batch_norm_join, DeviceKind::cpu,
                              [](const Tensor& all, const Tensor& mean, const Tensor& variance) {
                                if (mean.dtype() == DType::f64)
                                  join_on_cpu<double>(all, mean, variance);
                                else
                                  join_on_cpu<float>(all, mean, variance);
                              }};
const RegisterKernel cpu_backward{batch_norm_backward,
                                  {DeviceKind::cpu, DeviceKind::meta},
                                  [](const BatchNormBackward& given, const BatchNormGradients& to) {
                                    with_float_type(given.dy.dtype(),
                                                    [&]<class T>(Type<T>) { BackwardOnCpu<T>(given, to).run(); });
                                  }};

}  // namespace
}  // namespace lacuna
