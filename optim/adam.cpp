// Adam with weight decay in the gradient (torch.optim.Adam) or apart from it (torch.optim.AdamW), as AdamW-R (Dong and
// Lin 2024, algorithm 1): in one pass, the denominator needs no space at all.
#include "optim/adam_family.h"
#include "optim/elementwise.h"

namespace lacuna {
namespace {

template <bool decoupled>
class AdamLike final : public AdamFamily {
 public:
  static constexpr std::string_view name = decoupled ? "adamw" : "adam";
  static constexpr double weight_decay = decoupled ? 0.01 : 0;
  static std::vector<Setting> settings() { return AdamFamily::settings(1e-8); }
  AdamLike(const Settings& settings, const Trained& trained) : AdamFamily(settings, trained) {}

 private:
  void update(const Update& what) const override {
    update_elements<2>(formula::AdamStep{.counted = what.counted,
                                         .moments = moments(what.step),
                                         .lr = static_cast<float>(what.lr),
                                         .coupled_decay = decoupled ? 0 : static_cast<float>(what.weight_decay),
                                         .decay = decoupled ? static_cast<float>(1 - what.lr * what.weight_decay) : 1},
                       what);
  }
};

const RegisterOptimizer<AdamLike<false>> adam;
const RegisterOptimizer<AdamLike<true>> adamw;

}  // namespace
}  // namespace lacuna
