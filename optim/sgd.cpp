// Stochastic gradient descent as torch.optim.SGD does it.
#include "optim/elementwise.h"
#include "optim/optimizer.h"

namespace lacuna {
namespace {

class Sgd final : public Optimizer {
 public:
  static constexpr std::string_view name = "sgd";
  static constexpr double weight_decay = 0;
  static std::vector<Setting> settings() {
    return {{"momentum", 0.0, below_one, "decay of the gradients' running sum"},
            {"nesterov", false, {}, "whether the step looks one gradient ahead"}};
  }

  Sgd(const Settings& settings, const Trained& trained)
      : Optimizer(trained, settings.number("momentum") > 0 ? std::vector<StateKind>{{"momentum_buffer"}}
                                                           : std::vector<StateKind>{}),
        momentum_(static_cast<float>(settings.number("momentum"))),
        nesterov_(settings.flag("nesterov")) {
    if (nesterov_ && momentum_ == 0) reject("optimizer sgd: nesterov needs a momentum above 0");
  }

  bool is_scale_invariant() const override { return false; }

 private:
  void update(const Update& what) const override {
    const auto lr = static_cast<float>(what.lr), decay = static_cast<float>(what.weight_decay);
    if (momentum_ == 0)
      update_elements<0>(formula::SgdStep{what.counted, lr, decay}, what);
    else if (nesterov_)
      update_elements<1>(formula::SgdMomentumStep<true>{what.counted, lr, decay, momentum_}, what);
    else
      update_elements<1>(formula::SgdMomentumStep<false>{what.counted, lr, decay, momentum_}, what);
  }

  float momentum_;
  bool nesterov_;
};

const RegisterOptimizer<Sgd> sgd;

}  // namespace
}  // namespace lacuna
