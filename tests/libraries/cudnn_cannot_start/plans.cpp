#include "ops/dnn_cuda.h"

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace lacuna {

TEST_CASE("a cuDNN that opens and cannot start is left out, and said once") {
  REQUIRE(dlopen(LACUNA_TEST_CUDNN, RTLD_NOW | RTLD_GLOBAL) != nullptr);  // the first of that name is opened
  const ConvShape shape{32, 56, 56, 64, 64, 3, 3, 1, 1, 1};
  for (const auto pass : {cuda::ConvolutionPass::forward, cuda::ConvolutionPass::weight_gradient})
    CHECK_FALSE(cuda::has_plan(0, cuda::Convolution{pass, DType::bf16, shape}));
  const std::vector<std::string> notes = new_library_notes();
  REQUIRE(notes.size() == 1);
  CHECK(notes.front().find("it does not start") != std::string::npos);
  CHECK(new_library_notes().empty());
}

}  // namespace lacuna
