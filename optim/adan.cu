#include "optim/rules.h"
#include "optim/update_kernels.h"

namespace lacuna::cuda {

template void update(Stream, const AdanRule&, const UpdatesOnCuda&);

}  // namespace lacuna::cuda
