// Launcher of optim/lamb.cu.
#pragma once

#include "optim/clip_cuda.h"
#include "optim/rules.h"
#include "optim/update_cuda.h"

namespace lacuna::cuda {

struct LambUpdatesOnCuda {
  UpdatesOnCuda updates;  // the gradients are overwritten
  SumsOfSquares norms;    // of the parameters (index 2·i) and of their updates (2·i + 1) that the rule adapts to
  std::byte* begun;       // [parameters, bytes_of_begun], workspace of the second half
};
void update(Stream stream, const LambRule& rule, const LambUpdatesOnCuda& what);

}  // namespace lacuna::cuda
