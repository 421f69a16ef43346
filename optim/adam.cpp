// Adam with weight decay in the gradient (torch.optim.Adam) or decoupled from
// it (torch.optim.AdamW), as AdamW-R (Dong and Lin 2024, algorithm 1): the
// denominator lives in registers only.
#include "optim/adam_family.h"
#include "optim/elementwise.h"

namespace lacuna {
namespace {

const RegisterKernel cpu_update{
    adam_update, DeviceKind::cpu,
    [](const AdamSettings& settings, std::span<const Update> updates) { update_on_cpu(AdamRule{settings}, updates); }};

template <bool decoupled>
class AdamLike final : public AdamFamily {
 public:
  static constexpr std::string_view name = decoupled ? "adamw" : "adam";
  static AdamOptions defaults() {
    AdamOptions options;
    options.weight_decay = decoupled ? 0.01 : 0;
    options.decoupled = decoupled;
    return options;
  }
  AdamLike(const AdamOptions& options, const OptimizerConfig& config) : AdamFamily(config), settings_(options) {}

 private:
  void update(std::span<const Update> updates) const override { adam_update(device_of(updates), settings_, updates); }

  AdamSettings settings_;
};

const RegisterOptimizer<AdamLike<false>> adam;
const RegisterOptimizer<AdamLike<true>> adamw;

}  // namespace
}  // namespace lacuna
