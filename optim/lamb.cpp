// LAMB (You et al. 2020) as timm.optim.Lamb, whose clipping of all gradients is
// train.clip_norm here. The step size depends on the norms of the whole update
// and of the parameter. The update is kept in the gradient's memory until its
// norm is known (rounded to bf16 if the gradient is bf16), and applied in a
// second pass.
#include "optim/adam_family.h"
#include "optim/clip.h"
#include "optim/elementwise.h"

namespace lacuna {
namespace {

void update_one(const LambRule& rule, const Update& what) {
  const CpuUpdate begun = begin_on_cpu(what);
  if (!begun) return;
  const std::uint64_t key = state_key(what.seed, begun.step, what.site);
  update_elements<LambRule::states, true>(rule(what.rate, begun.counted, begun.step), what, key);
  const Update second = what.with_state({});
  const auto squares = [&](const Tensor& x) { return rule.adapts(what.rate) ? sum_of_squares(x) : 0.0; };
  update_elements<0>(rule.apply(what.rate, squares(what.parameter), squares(what.gradient)), second, key);
}

const RegisterKernel cpu_update{lamb_update, DeviceKind::cpu,
                                [](const LambSettings& settings, std::span<const Update> updates) {
                                  for (const Update& what : updates) update_one(LambRule{settings}, what);
                                }};

struct LambOptions : AdamOptions {
  bool trust_clip = false, always_adapt = false;

  static Fields fields() {
    return rows_of_base<LambOptions, AdamOptions>() +
           Fields{field("trust_clip", &LambOptions::trust_clip, "limit the trust ratio to 1 (LAMBC)"),
                  field("always_adapt", &LambOptions::always_adapt,
                        "apply the trust ratio to parameters without weight decay, too")};
  }
};

class Lamb final : public AdamFamily {
 public:
  static constexpr std::string_view name = "lamb";
  static LambOptions defaults() {
    LambOptions options;
    options.weight_decay = 0.01;
    options.eps = 1e-6;
    return options;
  }

  Lamb(const LambOptions& options, const OptimizerConfig& config)
      : AdamFamily(config),
        settings_{.adam = options, .trust_clip = options.trust_clip, .always_adapt = options.always_adapt} {}

 private:
  void update(std::span<const Update> updates) const override {
    // Another parameter may share the gradient: Add passes one tensor on to both of its inputs.
    std::vector<Tensor> own;
    for (const Update& what : updates)
      own.push_back(what.gradient.unique() ? what.gradient : what.gradient.clone(Purpose::workspace));
    std::vector<Update> apart;
    for (std::size_t i = 0; i < own.size(); ++i) apart.push_back(updates[i].with_gradient(own[i]));
    lamb_update(device_of(updates), settings_, apart);
  }

  LambSettings settings_;
};

const RegisterOptimizer<Lamb> lamb;

}  // namespace
}  // namespace lacuna
