// Muon (Jordan et al. 2024) as torch.optim.Muon: the update of a hidden layer's matrix is its momentum, made nearly
// orthogonal. Products of matrices are in f32, while torch rounds them to bf16. AdamW updates all other parameters.
#include "core/parallel.h"
#include "ops/products/gemm.h"
#include "optim/adam_family.h"
#include "optim/matrix_optimizer.h"
#include "optim/muon_kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace lacuna {
namespace {

const RegisterKernel cpu_factor{
    newton_schulz_factor, DeviceKind::cpu,
    [](double identity, double linear, double quadratic, const Tensor& gram, const Tensor& square) {
      auto* const to = square.data<float>();  // [n, n]
      map(square.count(), formula::NewtonSchulz{static_cast<float>(linear), static_cast<float>(quadratic)}, to,
          gram.data<const float>(), to);
      const std::int64_t n = square.shape()[0];
      for (std::int64_t i = 0; i < n; ++i) to[i * n + i] += static_cast<float>(identity);
    }};

/// How the learning rate of a matrix follows from its shape.
enum class AdjustLr : std::uint8_t { original, match_rms_adamw };
std::array<std::pair<std::string_view, AdjustLr>, 2> names_of(AdjustLr) {
  return {{{"original", AdjustLr::original}, {"match_rms_adamw", AdjustLr::match_rms_adamw}}};
}

struct MuonOptions : DecayOptions, MuonSettings {
  std::int64_t ns_steps = 5;
  AdjustLr adjust_lr_fn = AdjustLr::original;
  double adamw_lr_scale = 1, beta1 = 0.9, beta2 = 0.999, adamw_eps = 1e-8;

  static Fields fields() {
    using O = MuonOptions;
    return rows_of_base<O, DecayOptions>() +
           Fields{field<O>("momentum", &O::momentum, below(1), "momentum of matrices"),
                  field<O>("nesterov", &O::nesterov, "Nesterov momentum"),
                  field<O>("eps", &O::eps, "least norm that a matrix is divided by"),
                  field("ns_steps", &O::ns_steps, between(1, 99), "Newton-Schulz iterations"),
                  field("adjust_lr_fn", &O::adjust_lr_fn,
                        "how a matrix's shape scales its learning rate; match_rms_adamw suits the rates of AdamW"),
                  field("adamw_lr_scale", &O::adamw_lr_scale, "learning rate of AdamW's parameters relative to lr"),
                  field("beta1", &O::beta1, below(1), "AdamW's decay of the running mean of gradients"),
                  field("beta2", &O::beta2, below(1), "AdamW's decay of the running mean of squared gradients"),
                  field("adamw_eps", &O::adamw_eps, "added to AdamW's denominator")};
  }
};

class Muon final : public MatrixOptimizer {
 public:
  static constexpr std::string_view name = "muon";
  static MuonOptions defaults() {
    MuonOptions options;
    options.weight_decay = 0.1;
    return options;
  }

  Muon(const MuonOptions& options, const OptimizerConfig& config)
      : MatrixOptimizer(config,
                        [matrices = config.hidden_matrices](const Parameter& parameter) {
                          if (matrices.contains(&parameter)) return std::vector<StateKind>{{momentum_name}};
                          return adam_states();
                        }),
        options_(options) {
    if (!config.groups.empty() && config.hidden_matrices.empty())
      reject(
          "optimizer muon: the model has no matrices in its blocks (Module::set_role), and convolutions are none: "
          "AdamW "
          "would update every parameter; take optimizer.name=adamw");
  }

 private:
  static constexpr std::string_view momentum_name = "momentum_buffer";
  static constexpr double identity = 3.4445, linear = -4.7750, quadratic = 2.0315;  // of Newton-Schulz iterations

  void update(std::span<const Update> updates) const override {
    std::vector<Update> matrices, others;
    for (const Update& what : updates) {
      if (what.state.front().name() == momentum_name) {
        matrices.push_back(what);
      } else {
        others.push_back(what);
        others.back().rate.lr *= options_.adamw_lr_scale;
      }
    }
    const AdamSettings adamw{options_.beta1, options_.beta2, options_.adamw_eps, true};
    if (!others.empty()) update_by(AdamRule{adamw}, others);
    MatrixOptimizer::update(matrices);
  }

  void update_matrix(const Update& what) const override {
    pass(MuonMomentumRule{options_}, what);
    const Tensor square = sums_of_squares({what.gradient});
    pass(MuonNormalizeRule{options_, square.data<const double>()}, what.with_state({}));
    const auto rows = static_cast<double>(what.parameter.shape()[0]),
               columns = static_cast<double>(what.parameter.shape()[1]);
    const double ratio = options_.adjust_lr_fn == AdjustLr::match_rms_adamw ? 0.2 * std::sqrt(std::max(rows, columns))
                                                                            : std::sqrt(std::max(1.0, rows / columns));
    pass(MuonApplyRule{ratio}, what.with_gradient(orthogonal(what.gradient)).with_state({}));
  }

  /// x with singular values near 1, by Newton-Schulz iterations x ← (aI + bA + cA²)·x with A = x·xᵀ. x: of norm 1;
  /// overwritten. A tall matrix is multiplied from the right, by factors of A = xᵀ·x.
  Tensor orthogonal(Tensor x) const {
    const std::int64_t rows = x.shape()[0], columns = x.shape()[1], side = std::min(rows, columns);
    const auto workspace = [&](const Shape& shape) {
      return Tensor::empty(shape, DType::f32, x.device(), Purpose::workspace);
    };
    const Tensor gram = workspace({side, side}), factor = workspace({side, side});
    Tensor next = workspace(x.shape());
    for (std::int64_t i = 0; i < options_.ns_steps; ++i) {
      const Matrix from(x);
      if (rows > columns)
        gemm(from.t(), from, Matrix(gram));
      else
        gemm(from, from.t(), Matrix(gram));
      gemm(Matrix(gram), Matrix(gram), Matrix(factor));
      newton_schulz_factor(x.device(), identity, linear, quadratic, gram, factor);
      if (rows > columns)
        gemm(from, Matrix(factor), Matrix(next));
      else
        gemm(Matrix(factor), from, Matrix(next));
      std::swap(x, next);
    }
    return x;
  }

  MuonOptions options_;
};

const RegisterOptimizer<Muon> muon;

}  // namespace
}  // namespace lacuna
