#include "ops/kernels/gemm.h"
#include "tests/ops/op_sample.h"

#include <doctest/doctest.h>

#include <vector>

namespace lacuna {

TEST_CASE("cuda: a product of f32 into columns of a narrower tensor leaves those beside them") {
  const Tensor a = sample_values({3, 2}, DType::f32, 1, -1, 1).to(Device::cuda),
               b = sample_values({2, 4}, DType::f32, 2, -1, 1).to(Device::cuda);
  for (const bool add : {false, true}) {
    CAPTURE(add);
    const Tensor alone = Tensor::full({3, 4}, 5, DType::bf16, Device::cuda),
                 wide = Tensor::full({3, 9}, 5, DType::bf16, Device::cuda);
    gemm(Matrix(a), Matrix(b), Matrix(alone), {.add = add});
    gemm(Matrix(a), Matrix(b), Matrix(wide).column_range(2, 6), {.add = add});
    const std::vector<double> expected = alone.to_vector(), values = wide.to_vector();
    for (std::size_t i = 0; i < values.size(); ++i) {
      CAPTURE(i);
      const std::size_t row = i / 9, column = i % 9;
      CHECK(values[i] == (column >= 2 && column < 6 ? expected[row * 4 + column - 2] : 5));
    }
  }
}

}  // namespace lacuna
