// In place of cuDNN's adapter where CMake did not find the frontend: kernels of our own compute everything.
#include "ops/cuda/libraries/cudnn.h"

#include "core/error.h"

namespace lacuna::cuda {

CudaLibrary cudnn_state() {
  return {"cuDNN", "", "this build has no cuDNN: its frontend was missing. nvidia-cudnn-frontend from PyPI brings it"};
}

bool has_plan(int, const Convolution&) { return false; }
bool has_plan(int, const DenseAttention&) { return false; }
void convolve(Stream, int, const Convolution&, const void*, const void*, void*, void*) { fail("there is no cuDNN"); }
void attend(Stream, int, const DenseAttention&, const DenseAttentionPointers&, void*) { fail("there is no cuDNN"); }

}  // namespace lacuna::cuda
