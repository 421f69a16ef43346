// LAMB (You et al. 2020) as timm.optim.Lamb does it; its own clipping of all gradients is train.clip_norm here. How far
// a step goes follows from the norms of the whole update and of the parameter: four sweeps, for which the update lies
// in the gradient's space (with bf16 gradients, rounded to it).
#include "optim/adam_family.h"
#include "optim/clip.h"
#include "optim/elementwise.h"

namespace lacuna {
namespace {

class Lamb final : public AdamFamily {
 public:
  static constexpr std::string_view name = "lamb";
  static constexpr double weight_decay = 0.01;
  static std::vector<Setting> settings() {
    std::vector<Setting> all = AdamFamily::settings(1e-6);
    all.push_back({"trust_clip", false, {}, "whether the trust ratio is 1 at most (LAMBC)"});
    all.push_back({"always_adapt", false, {}, "whether parameters without decay have a trust ratio too"});
    return all;
  }

  Lamb(const Settings& settings, const Trained& trained)
      : AdamFamily(settings, trained),
        trust_clip_(settings.flag("trust_clip")),
        always_adapt_(settings.flag("always_adapt")) {}

 private:
  void update(const Update& what) const override {
    update_elements<2, true>(formula::LambUpdate{.counted = what.counted,
                                                 .moments = moments(what.step),
                                                 .weight_decay = static_cast<float>(what.weight_decay)},
                             what);
    double ratio = 1;
    if (what.weight_decay != 0 || always_adapt_) {
      const double weights = sum_of_squares(what.parameter), updates = sum_of_squares(what.gradient);
      if (weights > 0 && updates > 0) ratio = std::sqrt(weights / updates);
      if (trust_clip_) ratio = std::min(ratio, 1.0);
    }
    Update second = what;
    second.state = {};
    update_elements<0>(formula::LambApply{static_cast<float>(what.lr * ratio)}, second);
  }

  bool trust_clip_, always_adapt_;
};

const RegisterOptimizer<Lamb> lamb;

}  // namespace
}  // namespace lacuna
