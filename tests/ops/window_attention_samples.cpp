#include "ops/attention/window_attention.h"
#include "tests/ops/op_sample.h"

namespace lacuna {
namespace {

struct Options {
  std::int64_t images = 2, head_dim = 3;
  bool pad = false, logit_scale = false;
};

OpSample sample(std::string name, WindowAttention op, Options options = {}) {
  InputSet differentiable{WindowAttention::qkv, WindowAttention::table};
  if (options.pad) differentiable.insert(WindowAttention::pad);
  if (options.logit_scale) differentiable.insert(WindowAttention::logit_scale);
  const std::int64_t width = 3 * op.heads * options.head_dim;
  return {.name = "window_attention, " + name,
          .op = bound(op),
          .inputs =
              [=](DType dtype) {
                const DType parameters = compute_type(dtype);
                const Shape table{(2 * op.window_height - 1) * (2 * op.window_width - 1), op.heads};
                return std::vector{sample_values({options.images, op.height * op.width, width}, dtype, 1),
                                   sample_values(table, parameters, 2),
                                   options.pad ? sample_values({width}, parameters, 3) : Tensor(),
                                   options.logit_scale ? sample_values({op.heads}, parameters, 4, 0, 1.5) : Tensor()};
              },
          .differentiable = differentiable};
}

const RegisterSample samples[] = {
    RegisterSample(sample("one window", {.heads = 2, .height = 3, .width = 2, .window_height = 3, .window_width = 2})),
    RegisterSample(sample("whole windows",
                          {.heads = 1, .height = 4, .width = 6, .window_height = 2, .window_width = 3, .scale = 0.7},
                          {.images = 1, .head_dim = 11})),
    RegisterSample(sample("shifted", {.heads = 2,
                                      .height = 4,
                                      .width = 4,
                                      .window_height = 2,
                                      .window_width = 2,
                                      .shift_down = 1,
                                      .shift_right = 1})),
    RegisterSample(
        sample("shifted on one axis",
               {.heads = 1, .height = 3, .width = 6, .window_height = 3, .window_width = 3, .shift_right = 1})),
    RegisterSample(
        sample("padded by zeros", {.heads = 2, .height = 3, .width = 5, .window_height = 2, .window_width = 2})),
    RegisterSample(sample(
        "padded and shifted",
        {.heads = 3, .height = 5, .width = 4, .window_height = 3, .window_width = 3, .shift_down = 1, .shift_right = 1},
        {.pad = true})),
    RegisterSample(sample("padded before it is shifted, and smaller than a window",
                          {.heads = 2,
                           .height = 5,
                           .width = 2,
                           .window_height = 3,
                           .window_width = 3,
                           .shift_down = 1,
                           .shift_right = 1,
                           .pads_first = true},
                          {.pad = true})),
    RegisterSample(sample("padding that is not needed",
                          {.heads = 1, .height = 2, .width = 4, .window_height = 2, .window_width = 2},
                          {.images = 3, .pad = true})),
    RegisterSample(sample("cosines", {.heads = 2, .height = 2, .width = 4, .window_height = 2, .window_width = 2},
                          {.logit_scale = true})),
    RegisterSample(sample(
        "cosines, padded and shifted",
        {.heads = 2, .height = 3, .width = 5, .window_height = 2, .window_width = 3, .shift_down = 1, .shift_right = 1},
        {.pad = true, .logit_scale = true}))};

}  // namespace
}  // namespace lacuna
