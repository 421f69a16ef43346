// Launcher of optim/lamb.cu.
#pragma once

#include "optim/clip_cuda.h"
#include "optim/update_cuda.h"

namespace lacuna::cuda {

struct LambUpdateOnCuda {
  UpdateOnCuda update;  // the gradient is overwritten
  // Workspaces.
  void* begun;      // [bytes_of_begun], of the second half
  double* squares;  // [2]: Σ x² of the parameter and of its update
  double* partial;  // [square_parts(count)]
};
void update(Stream stream, const LambRule& rule, const LambUpdateOnCuda& what);

}  // namespace lacuna::cuda
