// Stochastic gradient descent as torch.optim.SGD.
#include "optim/elementwise.h"
#include "optim/kernels.h"
#include "optim/optimizer.h"

namespace lacuna {
namespace {

const RegisterKernel cpu_update{
    sgd_update, DeviceKind::cpu, [](const SgdSettings& settings, const Update& what) {
      const CpuUpdate begun = begin_on_cpu(what);
      if (!begun) return;
      const auto lr = static_cast<float>(what.lr), decay = static_cast<float>(what.weight_decay);
      const float momentum = settings.momentum;
      if (momentum == 0)
        update_elements<0>(formula::SgdStep{begun.counted, lr, decay}, what, begun.key);
      else if (settings.nesterov)
        update_elements<1>(formula::SgdMomentumStep<true>{begun.counted, lr, decay, momentum}, what, begun.key);
      else
        update_elements<1>(formula::SgdMomentumStep<false>{begun.counted, lr, decay, momentum}, what, begun.key);
    }};

class Sgd final : public Optimizer {
 public:
  static constexpr std::string_view name = "sgd";
  static constexpr double weight_decay = 0;
  static std::vector<Setting> settings() {
    return {{"momentum", 0.0, below_one, "decay of the running sum of gradients"},
            {"nesterov", false, {}, "whether the step looks one gradient ahead"}};
  }

  Sgd(const Settings& settings, const OptimizerConfig& config)
      : Optimizer(config, settings.number("momentum") > 0 ? std::vector<StateKind>{{"momentum_buffer"}}
                                                          : std::vector<StateKind>{}),
        settings_{.momentum = static_cast<float>(settings.number("momentum")), .nesterov = settings.flag("nesterov")} {
    if (settings_.nesterov && settings_.momentum == 0) reject("optimizer sgd: nesterov needs a momentum above 0");
  }

  bool is_scale_invariant() const override { return false; }

 private:
  void update(const Update& what) const override { sgd_update(what.parameter.device(), settings_, what); }

  SgdSettings settings_;
};

const RegisterOptimizer<Sgd> sgd;

}  // namespace
}  // namespace lacuna
