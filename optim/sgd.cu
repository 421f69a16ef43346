#include "optim/update_kernels.h"

namespace lacuna::cuda {

template void update(Stream, const SgdRule&, const UpdateOnCuda&);
template void update(Stream, const SgdMomentumRule<false>&, const UpdateOnCuda&);
template void update(Stream, const SgdMomentumRule<true>&, const UpdateOnCuda&);

}  // namespace lacuna::cuda
