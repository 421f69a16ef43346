#include "ops/pooling/pool.h"
#include "core/tensor.h"

#include <doctest/doctest.h>

#include <vector>

using namespace lacuna;

TEST_CASE("max pooling saves the place of the maximum in as few bits as the window needs") {
  struct Case {
    MaxPool2d op;
    std::int64_t bytes;  // of 2 images of 8x8 windows with 16 channels
  };
  constexpr std::int64_t outputs = 2 * 8 * 8 * 16;
  const std::vector<Case> cases{{{.kernel = 2, .stride = 2, .padding = 0, .height = 16, .width = 16}, outputs * 2 / 8},
                                {{.kernel = 3, .stride = 2, .padding = 1, .height = 16, .width = 16}, outputs * 4 / 8},
                                {{.kernel = 5, .stride = 2, .padding = 2, .height = 16, .width = 16}, outputs * 5 / 8},
                                {{.kernel = 16, .stride = 1, .padding = 0, .height = 23, .width = 23}, outputs}};
  for (const Case& one : cases) {
    CAPTURE(one.op.kernel);
    for (const Device device : {Device::cpu, Device::meta}) {
      std::vector<Tensor> extra_outputs;
      const Tensor x = Tensor::zeros({2, one.op.height, one.op.width, 16}, DType::f32, device);
      const Tensor y = one.op.forward(std::vector{x}, extra_outputs);
      CHECK(y.shape() == Shape{2, 8, 8, 16});
      REQUIRE(extra_outputs.size() == 1);
      CHECK(extra_outputs[0].bytes() == one.bytes);
    }
  }
}
