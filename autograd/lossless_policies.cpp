// The policies whose gradients are the very same bits: `keep` and `exact`.
#include "autograd/policy.h"

namespace lacuna {
namespace {

/// What is needed stays as it is: what a classical framework does.
class Keep final : public MemoryPolicy {
 public:
  std::string_view name() const override { return "keep"; }
  Hold settle(const SlotFacts&) const override { return Hold::keep; }
};

/// Whatever a cheap pass over something kept yields is not kept; where only a sign is needed, a bit is.
class Exact final : public MemoryPolicy {
 public:
  std::string_view name() const override { return "exact"; }
  Hold settle(const SlotFacts& facts) const override {
    // A longer chain saves little more and makes backward hold all its links at once.
    constexpr int longest_chain = 3;
    if (facts.derivable && facts.chain <= longest_chain) return Hold::derive;
    return facts.need == Need::sign ? Hold::mask : Hold::keep;
  }
};

const RegisterPolicy<Keep> keep;
const RegisterPolicy<Exact> exact;

}  // namespace
}  // namespace lacuna
