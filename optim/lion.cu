#include "optim/rules.h"
#include "optim/update_kernels.h"

namespace lacuna::cuda {

template void update(Stream, const LionRule&, const UpdatesOnCuda&);

}  // namespace lacuna::cuda
