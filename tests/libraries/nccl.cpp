#include "ops/cuda/libraries/nccl.h"

#include <doctest/doctest.h>

namespace lacuna::test {

TEST_CASE("nccl: the library has the functions that are used, or what brings it is said") {
  const CudaLibrary found = cuda::nccl_state();
  CHECK(found.version.empty() != found.problem.empty());
  if (found.version.empty()) MESSAGE("left out: ", found.problem);
}

}  // namespace lacuna::test
