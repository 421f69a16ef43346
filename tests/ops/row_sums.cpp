// Gradients that are sums over many rows: their precision, and the same bits whatever is computed beside them.
#include "core/parallel.h"
#include "ops/arithmetic/reduce.h"
#include "ops/norms/layer_norm.h"
#include "tests/ops/op_run.h"

#include <doctest/doctest.h>

#include <cmath>

namespace lacuna {
namespace {

/// The gradients of a LayerNorm's weight and bias; undefined where not wanted.
std::vector<Tensor> norm_gradients(const Tensor& x, const Tensor& dy, InputSet wanted) {
  const Shape channels{x.shape().back()};
  const DType type = compute_type(x.dtype());
  const auto op = bound(LayerNorm{.eps = 1e-6});
  const Result result =
      forward(*op, {x, Tensor::full(channels, 1, type, Device::cpu), Tensor::zeros(channels, type, Device::cpu)});
  return backward(*op, result, {dy.clone(Purpose::transient)}, wanted);
}

}  // namespace

TEST_CASE("sums over many rows err as little as those over few") {
  constexpr std::int64_t rows = 1 << 20, columns = 4;
  const Tensor x = sample_values({rows, columns}, DType::f32, 1);
  const Tensor dy = Tensor::full({rows, columns}, 0.1, DType::f32, Device::cpu);
  const double expected = static_cast<double>(0.1F) * static_cast<double>(rows);
  const auto check = [&](const Tensor& sum) {
    for (const double value : sum.to_vector()) CHECK(std::abs(value / expected - 1) < 1e-5);
  };
  check(sum_over_leading(dy, {columns}));
  const int before = threads();
  for (const int count : {1, 3}) {
    CAPTURE(count);
    set_threads(count);
    check(norm_gradients(x, dy, InputSet{2})[2]);
    check(norm_gradients(x, dy, InputSet{1, 2})[2]);
  }
  set_threads(before);
}

TEST_CASE("a LayerNorm's bias has the same gradient whether its weight is trained or not") {
  const int before = threads();
  for (const Shape& shape : {Shape{3000, 37}, Shape{40, 768}, Shape{5, 3}})
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const int count : {1, 2, 5}) {
        CAPTURE(shape.count());
        CAPTURE(count);
        set_threads(count);
        const Tensor x = sample_values(shape, dtype, 1), dy = sample_values(shape, dtype, 2);
        const Tensor alone = norm_gradients(x, dy, InputSet{2})[2];
        CHECK(same_bits(alone, norm_gradients(x, dy, InputSet{1, 2})[2]));
        CHECK(same_bits(alone, norm_gradients(x, dy, InputSet{0, 1, 2})[2]));
      }
  set_threads(before);
}

}  // namespace lacuna
