// In place of NCCL's adapter where CMake did not find its header.
#include "ops/cuda/libraries/nccl.h"

#include "core/communicator.h"
#include "core/device_ranks.h"
#include "core/error.h"

namespace lacuna::cuda {
namespace {

constexpr const char* problem =
    "this build has no NCCL: nccl.h was missing. libnccl-dev from NVIDIA or nvidia-nccl-cu13 from PyPI brings it";

const RegisterKernel open{open_device_ranks, DeviceKind::cuda,
                          [](Device, Communicator&, std::unique_ptr<Communicator>&) {
                            reject("several ranks train on GPUs by NCCL: {}", problem);
                          }};

}  // namespace

CudaLibrary nccl_state() { return {"NCCL", "", problem}; }

}  // namespace lacuna::cuda
