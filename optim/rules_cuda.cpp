// The kernels of all rules on cuda.
#include "optim/kernels.h"
#include "optim/start_updates.h"

namespace lacuna {
namespace {

template <class Rule>
const RegisterRule<Rule> cuda_update{update_by<Rule>, DeviceKind::cuda, cuda::start_updates<Rule>};

}  // namespace
}  // namespace lacuna

#define LACUNA_RULE(...)                                             \
  namespace {                                                        \
  template const RegisterRule<__VA_ARGS__> cuda_update<__VA_ARGS__>; \
  }
#include "optim/rules.h"
