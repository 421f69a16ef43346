// Lion (Chen et al. 2023) as timm.optim.Lion does it. In one pass the interpolated gradient c, which Lion-R (Dong and
// Lin 2024, algorithm 3) puts in the gradient's space, needs none.
#include "optim/elementwise.h"
#include "optim/optimizer.h"

namespace lacuna {
namespace {

class Lion final : public Optimizer {
 public:
  static constexpr std::string_view name = "lion";
  static constexpr double weight_decay = 0;
  static std::vector<Setting> settings() {
    return {{"beta1", 0.9, below_one, "share of the running mean in the direction"},
            {"beta2", 0.99, below_one, "decay of the gradients' running mean"}};
  }

  Lion(const Settings& settings, const Trained& trained)
      : Optimizer(trained, {{"exp_avg"}}),
        take1_(static_cast<float>(1 - settings.number("beta1"))),
        take2_(static_cast<float>(1 - settings.number("beta2"))) {}

  bool is_scale_invariant() const override { return true; }

 private:
  void update(const Update& what) const override {
    update_elements<1>(formula::LionStep{.counted = what.counted,
                                         .lr = static_cast<float>(what.lr),
                                         .decay = static_cast<float>(1 - what.lr * what.weight_decay),
                                         .take1 = take1_,
                                         .take2 = take2_},
                       what);
  }

  float take1_, take2_;
};

const RegisterOptimizer<Lion> lion;

}  // namespace
}  // namespace lacuna
