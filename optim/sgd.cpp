// Stochastic gradient descent as torch.optim.SGD does it.
#include "optim/elementwise.h"
#include "optim/formulas.h"
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

  Sgd(const Settings& settings, std::vector<ParameterGroup> groups)
      : Optimizer(std::move(groups), settings.number("momentum") > 0 ? std::vector<std::string_view>{"momentum_buffer"}
                                                                     : std::vector<std::string_view>{}),
        momentum_(settings.number("momentum")),
        nesterov_(settings.flag("nesterov")) {
    if (nesterov_ && momentum_ == 0) reject("optimizer sgd: nesterov needs a momentum above 0");
  }

 private:
  void update(const Update& what) const override {
    const auto lr = static_cast<float>(what.lr), decay = static_cast<float>(what.weight_decay);
    const auto factor = static_cast<float>(what.gradient_factor), momentum = static_cast<float>(momentum_);
    if (momentum_ == 0) {
      update_elements<0>(formula::SgdStep{lr, decay, factor}, what.parameter, what.gradient, what.state);
    } else if (nesterov_) {
      update_elements<1>(formula::SgdMomentumStep<true>{lr, decay, factor, momentum}, what.parameter, what.gradient,
                         what.state);
    } else {
      update_elements<1>(formula::SgdMomentumStep<false>{lr, decay, factor, momentum}, what.parameter, what.gradient,
                         what.state);
    }
  }

  double momentum_;
  bool nesterov_;
};

const RegisterOptimizer<Sgd> sgd;

}  // namespace
}  // namespace lacuna
