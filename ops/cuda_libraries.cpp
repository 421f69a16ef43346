#include "ops/cuda_libraries.h"

namespace lacuna {

bool& uses_cudnn() {
  static bool uses = true;
  return uses;
}

std::vector<CudaLibrary> cuda_libraries() {
  std::vector<CudaLibrary> libraries;
  add_cuda_libraries(Device::cuda, libraries);
  return libraries;
}

}  // namespace lacuna
