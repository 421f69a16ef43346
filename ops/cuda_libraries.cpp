#include "ops/cuda_libraries.h"

namespace lacuna {

bool& uses_cudnn() {
  static bool uses = true;
  return uses;
}

}  // namespace lacuna
