// Window attention on cuda in windows of the sizes that models have: of one tile and of several.
#include "core/stand_in/fibers.h"
#include "ops/attention/window_attention.h"
#include "tests/ops/op_run.h"
#include "tests/ops/op_sample.h"

#include <doctest/doctest.h>

#include <vector>

namespace lacuna {
namespace {

constexpr InputSet differentiable{WindowAttention::qkv, WindowAttention::table, WindowAttention::pad,
                                  WindowAttention::logit_scale};

std::vector<Tensor> inputs_of(const WindowAttention& op, std::int64_t images, std::int64_t head_dim, DType dtype) {
  const std::int64_t width = 3 * op.heads * head_dim;
  const Shape table{(2 * op.window_height - 1) * (2 * op.window_width - 1), op.heads};
  return {sample_values({images, op.height * op.width, width}, dtype, 1), sample_values(table, DType::f32, 2),
          sample_values({width}, DType::f32, 3), sample_values({op.heads}, DType::f32, 4, 0, 1.5)};
}

std::vector<Tensor> run(const Operation& op, const std::vector<Tensor>& inputs, const std::vector<Tensor>& dy) {
  Result result = forward(op, inputs);
  std::vector<Tensor> all{result.y()};
  for (Tensor& gradient : backward(op, result, dy, differentiable)) all.push_back(std::move(gradient));
  return all;
}

void check(const WindowAttention& attention, std::int64_t images, std::int64_t head_dim) {
  const Bound<WindowAttention> op(attention);
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    CAPTURE(name_of(dtype));
    const std::vector<Tensor> inputs = inputs_of(attention, images, head_dim, dtype);
    const std::vector<Tensor> here = each(inputs, [](const Tensor& tensor) { return tensor.to(Device::cuda); });
    const std::vector<Tensor> dy = projections(forward(op, here));
    const std::vector<Tensor> got = run(op, here, dy);
    const std::vector<Tensor> expected = run(
        op, each(inputs, in_double), each(dy, [](const Tensor& tensor) { return in_double(tensor.to(Device::cpu)); }));
    REQUIRE(got.size() == expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      CAPTURE(i);
      CHECK(relative_error(got[i], expected[i]) < tolerance(dtype));
    }
    const cuda::stand_in::ScheduleScope schedule(2);
    const std::vector<Tensor> again = run(op, here, dy);
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(same_bits(again[i], got[i]));
  }
}

}  // namespace

TEST_CASE("cuda: shifted windows of 7 x 7 and heads of 32 columns agree with f64 on the CPU") {
  check(
      {.heads = 2, .height = 10, .width = 14, .window_height = 7, .window_width = 7, .shift_down = 3, .shift_right = 3},
      2, 32);
}

TEST_CASE("cuda: windows of 8 x 8 and heads of 20 columns agree with f64 on the CPU") {
  check({.heads = 1, .height = 8, .width = 9, .window_height = 8, .window_width = 8, .shift_right = 4}, 1, 20);
}

TEST_CASE("cuda: pads that rolling takes into the first windows agree with f64 on the CPU") {
  check({.heads = 1,
         .height = 8,
         .width = 9,
         .window_height = 7,
         .window_width = 7,
         .shift_down = 3,
         .shift_right = 3,
         .pads_first = true},
        1, 20);
}

TEST_CASE("cuda: windows of 12 x 12, which are several tiles, agree with f64 on the CPU") {
  check({.heads = 1,
         .height = 11,
         .width = 12,
         .window_height = 12,
         .window_width = 12,
         .shift_down = 6,
         .shift_right = 5},
        1, 32);
}

}  // namespace lacuna
