// The kernels of all rules.
#include "optim/update_kernels.h"

#define LACUNA_RULE(...)                                                       \
  namespace cuda {                                                             \
  template void update(Stream, const __VA_ARGS__&, const UpdatesOnCuda& what); \
  }
#include "optim/rules.h"
