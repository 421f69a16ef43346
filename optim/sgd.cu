#include "optim/rules.h"
#include "optim/update_kernels.h"

namespace lacuna::cuda {

template void update(Stream, const SgdRule&, const UpdatesOnCuda&);
template void update(Stream, const SgdMomentumRule<false>&, const UpdatesOnCuda&);
template void update(Stream, const SgdMomentumRule<true>&, const UpdatesOnCuda&);

}  // namespace lacuna::cuda
