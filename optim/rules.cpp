// The kernels of all rules on the CPU.
#include "optim/elementwise.h"
#include "optim/kernels.h"

namespace lacuna {
namespace {

template <class Rule>
const RegisterRule<Rule> cpu_update{update_by<Rule>, DeviceKind::cpu, update_on_cpu<Rule>};

}  // namespace
}  // namespace lacuna

#define LACUNA_RULE(...)                                            \
  namespace {                                                       \
  template const RegisterRule<__VA_ARGS__> cpu_update<__VA_ARGS__>; \
  }
#include "optim/rules.h"
