#include "core/error.h"
#include "ops/products/gemm.h"
#include "ops/products/tf32.h"
#include "tests/ops/op_sample.h"

#include <doctest/doctest.h>

#include <cmath>
#include <span>
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

TEST_CASE("cuda: an addend is added within a product whose result is rounded once") {
  // The product is 1 + 2^-9, which bf16 rounds to 1: added to -1 it is 2^-9 if it was not rounded before.
  const std::vector<double> left{1, 0x1p-9}, ones{1, 1}, minus{-1};
  const auto tensor = [](const std::vector<double>& values, const Shape& shape, DType dtype) {
    return Tensor::from(std::span<const double>(values), shape, dtype).to(Device::cuda);
  };
  for (const DType factors : {DType::bf16, DType::f32}) {
    CAPTURE(name_of(factors));
    const Tensor c = Tensor::full({1, 1}, 7, DType::bf16, Device::cuda), addend = tensor(minus, {1, 1}, DType::bf16);
    gemm(Matrix(tensor(left, {1, 2}, factors)), Matrix(tensor(ones, {2, 1}, factors)), Matrix(c), {.addend = addend});
    // A product in f32 is rounded to c's type, then the addend is added.
    CHECK(c.to_vector() == std::vector{factors == DType::bf16 ? 0x1p-9 : 0});
    CHECK(addend.to_vector() == minus);
  }
}

TEST_CASE("an addend is for all of a result that nothing else is added to") {
  const Tensor a = Tensor::zeros({2, 3}, DType::f32, Device::cpu), b = Tensor::zeros({3, 4}, DType::f32, Device::cpu),
               wide = Tensor::zeros({2, 9}, DType::f32, Device::cpu),
               c = Tensor::zeros({2, 4}, DType::f32, Device::cpu);
  CHECK_THROWS_AS(gemm(Matrix(a), Matrix(b), Matrix(wide).column_range(2, 6), {.addend = c}), Error);
  CHECK_THROWS_AS(
      gemm(Matrix(a), Matrix(b), Matrix(c), {.add = true, .addend = Tensor::zeros({2, 4}, DType::f32, Device::cpu)}),
      Error);
  CHECK_THROWS_AS(gemm(Matrix(a), Matrix(b), Matrix(c), {.addend = Tensor::zeros({2, 4}, DType::bf16, Device::cpu)}),
                  Error);
}

TEST_CASE("cuda: products of f32 take factors of TF32's precision where that is asked for, and never else") {
  const Tensor a = sample_values({5, 33}, DType::f32, 1, -1, 1), b = sample_values({33, 7}, DType::f32, 2, -1, 1);
  const auto product = [](const Tensor& x, const Tensor& y, DType dtype = DType::f32) {
    const Tensor c = Tensor::empty({5, 7}, DType::f32, Device::cuda);
    gemm(Matrix(x.to(Device::cuda).to(dtype)), Matrix(y.to(Device::cuda).to(dtype)), Matrix(c));
    return c.to_vector();
  };
  const auto magnitudes = [](const Tensor& x) {
    std::vector<double> values = x.to_vector();
    for (double& value : values) value = std::abs(value);
    return Tensor::from(std::span<const double>(values), x.shape(), DType::f32);
  };
  const std::vector<double> exact = product(a, b), half = product(a, b, DType::bf16),
                            sums = product(magnitudes(a), magnitudes(b));
  std::vector<double> in_tf32;
  {
    const Tf32Scope tf32(true);
    in_tf32 = product(a, b);
    CHECK(product(a, b, DType::bf16) == half);
    const Tf32Scope inner(false);
    CHECK(product(a, b) == exact);
  }
  CHECK(product(a, b) == exact);
  CHECK(in_tf32 != exact);
  // 10 bits after the point: a factor is off by up to 2^-11 of itself if it is rounded, and 2^-10 if it is cut.
  for (std::size_t i = 0; i < exact.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(in_tf32[i] - exact[i]) <= 2.01 * 0x1p-10 * sums[i]);
  }
}

}  // namespace lacuna
