// Adafactor (Shazeer and Stern 2018) as transformers.Adafactor: second moments of a matrix are kept as means over its
// rows and its columns.
#include "core/parallel.h"
#include "optim/adafactor_kernels.h"
#include "optim/matrix_optimizer.h"

#include <array>
#include <cmath>
#include <numeric>

namespace lacuna {
namespace {

constexpr std::int64_t serial_below = 16384;  // elements

/// The extents of `count` matrices, in the last two axes of a tensor.
struct Matrices {
  explicit Matrices(const Tensor& x)
      : columns(x.shape().back()), rows(x.shape()[x.shape().rank() - 2]), count(x.count() / (rows * columns)) {}
  std::int64_t columns, rows, count;
  std::int64_t all_rows() const { return count * rows; }
};

/// Σ (g² + eps).
double sum_of_squares(const float* g, std::int64_t count, double eps) {
  std::array<double, 16> sums{};  // independent, since each addition waits for the one before it
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16)
    for (std::int64_t k = 0; k < 16; ++k) {
      const auto value = static_cast<double>(g[i + k]);
      sums[static_cast<std::size_t>(k)] += value * value;
    }
  for (; i < count; ++i) sums[0] += static_cast<double>(g[i]) * static_cast<double>(g[i]);
  return std::accumulate(sums.begin(), sums.end(), static_cast<double>(count) * eps);
}

void update_moments(const AdafactorSettings& settings, const Tensor& gradient, const Tensor& step, const Tensor& finite,
                    const FactoredMoments& moments) {
  if (finite.defined() && *finite.data<const std::int32_t>() == 0) return;
  const Matrices m(gradient);
  const auto* const g = gradient.data<const float>();  // [count, rows, columns]
  auto *const row = moments.row.data<float>(), *const column = moments.column.data<float>(),
              *const means = moments.means.data<float>();
  const formula::FactoredMoment moment = settings.moment(*step.data<const std::int64_t>());
  const double eps = settings.eps;
  parallel_for(m.all_rows(), serial_below / m.columns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      row[r] = moment(row[r], sum_of_squares(g + r * m.columns, m.columns, eps), m.columns);
  });
  constexpr std::int64_t width = 64;  // of a block of columns
  const std::int64_t blocks = (m.columns + width - 1) / width;
  parallel_for(m.count * blocks, serial_below / (m.rows * width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      const std::int64_t matrix = b / blocks, first = b % blocks * width, n = std::min(width, m.columns - first);
      std::array<double, width> sums{};
      const float* from = g + matrix * m.rows * m.columns + first;
      for (std::int64_t r = 0; r < m.rows; ++r, from += m.columns)
        for (std::int64_t c = 0; c < n; ++c) {
          const auto value = static_cast<double>(from[c]);
          sums[static_cast<std::size_t>(c)] += value * value;
        }
      float* const to = column + matrix * m.columns + first;
      for (std::int64_t c = 0; c < n; ++c)
        to[c] = moment(to[c], sums[static_cast<std::size_t>(c)] + static_cast<double>(m.rows) * eps, m.rows);
    }
  });
  for (std::int64_t i = 0; i < m.count; ++i)
    means[i] = static_cast<float>(std::accumulate(row + i * m.rows, row + (i + 1) * m.rows, 0.0) /
                                  static_cast<double>(m.rows));
}

void divide_by_moments(const FactoredMoments& moments, const Tensor& gradient) {
  const Matrices m(gradient);
  auto* const g = gradient.data<float>();  // [count, rows, columns]
  const auto *const row = moments.row.data<const float>(), *const column = moments.column.data<const float>(),
                    *const means = moments.means.data<const float>();
  parallel_for(m.all_rows(), serial_below / m.columns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t matrix = r / m.rows;
      const float share = row[r] / means[matrix];
      float* const x = g + r * m.columns;
      const float* const of = column + matrix * m.columns;
#pragma omp simd
      for (std::int64_t c = 0; c < m.columns; ++c) x[c] = formula::factored_update(x[c], share, of[c]);
    }
  });
}

const RegisterKernel cpu_moments{update_factored_moments, DeviceKind::cpu, update_moments};
const RegisterKernel cpu_divide{divide_by_factored_moments, DeviceKind::cpu, divide_by_moments};

struct AdafactorOptions : DecayOptions, AdafactorSettings {
  static Fields fields() {
    using O = AdafactorOptions;
    return rows_of_base<O, DecayOptions>() +
           Fields{
               field<O>("eps", &O::eps, "added to squared gradients: transformers' eps[0]"),
               field<O>("eps_scale", &O::eps_scale,
                        "least scale of a parameter with scale_parameter: transformers' eps[1]"),
               field<O>("clip_threshold", &O::clip_threshold, at_least(1e-6), "largest root mean square of an update"),
               field<O>("decay_rate", &O::decay_rate, between(-1, 0),
                        "step t keeps 1 - t^decay_rate of the second moments"),
               field<O>("beta1", &O::beta1, below(1), "decay of the running mean of updates; 0: none is kept"),
               field<O>("scale_parameter", &O::scale_parameter,
                        "multiply the learning rate by the root mean square of the parameter"),
               field<O>("relative_step", &O::relative_step,
                        "multiply the learning rate by min(0.01, 1/sqrt(step)); lr: 1 is transformers' default"),
               field<O>("warmup_init", &O::warmup_init, "with relative_step: min(1e-6 * step, 1/sqrt(step))")};
  }
};

class Adafactor final : public MatrixOptimizer {
 public:
  static constexpr std::string_view name = "adafactor";
  static AdafactorOptions defaults() { return {}; }

  Adafactor(const AdafactorOptions& options, const OptimizerConfig& config)
      : MatrixOptimizer(config,
                        [momentum = options.beta1 > 0](const Parameter& parameter) {
                          std::vector<StateKind> kinds = moments_of(parameter.shape());
                          if (momentum) kinds.push_back({"exp_avg"});
                          return kinds;
                        }),
        settings_(options) {
    if (settings_.warmup_init && !settings_.relative_step)
      reject("optimizer adafactor: warmup_init needs relative_step: true");
  }

 private:
  static std::vector<StateKind> moments_of(const Shape& shape) {
    if (shape.rank() < 2) return {{"exp_avg_sq", StateValues::no_sign}};
    // Too small to be worth fewer bits.
    const auto factor = [&](std::string_view name, int left_out) {
      std::vector<std::int64_t> extents(shape.begin(), shape.end());
      extents.erase(extents.end() - left_out);
      return StateKind{name, StateValues::no_sign, StatePrecision::f32, Shape(extents)};
    };
    return {factor("exp_avg_sq_row", 1), factor("exp_avg_sq_col", 2)};
  }

  void update_matrix(const Update& what) const override {
    std::size_t moments = 1;
    if (what.parameter.shape().rank() >= 2) {
      moments = 2;
      pass(CountGradientRule{}, what.with_state({}));
      const Device device = what.parameter.device();
      const Tensor means = Tensor::empty({Matrices(what.parameter).count}, DType::f32, device, Purpose::workspace);
      const FactoredMoments factored{what.state[0].tensor(), what.state[1].tensor(), means};
      update_factored_moments(device, settings_, what.gradient, what.step, what.clip.finite, factored);
      divide_by_factored_moments(device, factored, what.gradient);
    } else {
      pass(AdafactorMomentRule{settings_}, what.with_state(what.state.first(1)));
    }
    const Tensor squares = sums_of_squares({what.gradient, what.parameter});
    const Update last = what.with_state(what.state.subspan(moments));
    const auto count = static_cast<double>(what.parameter.count());
    if (settings_.beta1 > 0)
      pass(AdafactorApplyRule<true>{settings_, squares.data<const double>(), count}, last);
    else
      pass(AdafactorApplyRule<false>{settings_, squares.data<const double>(), count}, last);
  }

  AdafactorSettings settings_;
};

const RegisterOptimizer<Adafactor> adafactor;

}  // namespace
}  // namespace lacuna
