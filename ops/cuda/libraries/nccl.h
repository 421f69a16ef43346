// NCCL, which sends bytes from GPU to GPU.
#pragma once

#include "ops/cuda_libraries.h"

namespace lacuna::cuda {

CudaLibrary nccl_state();

}  // namespace lacuna::cuda
