// LAMB (You et al. 2020) as timm.optim.Lamb, whose clipping of all gradients is
// train.clip_norm here. The step size depends on the norms of the whole update
// and of the parameter. The update is kept in the gradient's memory until its
// norm is known (rounded to bf16 if the gradient is bf16), and applied in a
// second pass.
#include "optim/adam_family.h"

namespace lacuna {
namespace {

struct LambOptions : AdamOptions {
  bool trust_clip = false, always_adapt = false;

  static Fields fields() {
    return rows_of_base<LambOptions, AdamOptions>() +
           Fields{field("trust_clip", &LambOptions::trust_clip, "limit the trust ratio to 1 (LAMBC)"),
                  field("always_adapt", &LambOptions::always_adapt,
                        "apply the trust ratio to parameters without weight decay, too")};
  }
};

class Lamb final : public Optimizer {
 public:
  static constexpr std::string_view name = "lamb";
  static LambOptions defaults() {
    LambOptions options;
    options.weight_decay = 0.01;
    options.eps = 1e-6;
    return options;
  }

  Lamb(const LambOptions& options, const OptimizerConfig& config)
      : Optimizer(config, adam_states()),
        rule_{{.adam = options, .trust_clip = options.trust_clip, .always_adapt = options.always_adapt}} {
    std::int64_t count = 0;
    Device device = Device::cpu;
    for (const ParameterGroup& group : config.groups)
      for (const Parameter* const parameter : group.parameters) {
        ++count;
        device = parameter->tensor().device();
      }
    squares_ = Tensor::zeros({count, 2}, DType::f64, device, Purpose::optimizer);
    finite_ = Tensor::zeros({}, DType::i32, device, Purpose::optimizer);
  }

 private:
  void update(std::span<const Update> updates) const override {
    // Another parameter may share the gradient: Add passes one tensor on to both of its inputs.
    std::vector<Tensor> own;
    for (const Update& what : updates)
      own.push_back(what.gradient.unique() ? what.gradient : what.gradient.clone(Purpose::workspace));
    std::vector<Update> first, second;
    for (std::size_t i = 0; i < own.size(); ++i) {
      first.push_back(updates[i].with_gradient(own[i]));
      second.push_back(first.back().with_state({}));
    }
    const LambApplyRule apply{rule_.settings, squares_.data<const double>()};
    std::vector<MeasuredGradient> measured;
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (!apply.adapts(updates[i].rate)) continue;
      const auto index = static_cast<std::int64_t>(2 * i);
      measured.push_back({updates[i].parameter, index});
      measured.push_back({own[i], index + 1});
    }
    update_by(rule_, first);
    measure_gradients(device_of(updates), measured, squares_, finite_);
    update_by(apply, second);
  }

  LambRule rule_;
  Tensor squares_;  // f64 [parameters, 2]: Σ x² of each parameter and its update
  Tensor finite_;   // i32 []: not read, since passes look at the clip's
};

const RegisterOptimizer<Lamb> lamb;

}  // namespace
}  // namespace lacuna
