#include "ops/pooling/pool.h"
#include "ops/pooling/relu_max_pool.h"
#include "tests/ops/op_sample.h"

namespace lacuna {
namespace {

template <class Op>
OpSample pool(const std::string& name, Op op, const Shape& shape) {
  return {.name = name,
          .op = bound(op),
          .inputs = [=](DType dtype) { return std::vector{sample_values(shape, dtype, 1)}; },
          .differentiable = {0}};
}

const RegisterSample max_pool(pool("max_pool2d", MaxPool2d{.height = 7, .width = 4}, {2, 7, 4, 5}));
const RegisterSample max_pool_overlapping(
    pool("max_pool2d, overlapping windows", MaxPool2d{.kernel = 3, .stride = 2, .padding = 1, .height = 7, .width = 6},
         {2, 7, 6, 67}));
const RegisterSample max_pool_large(pool("max_pool2d, a window of five bits",
                                         MaxPool2d{.kernel = 5, .stride = 1, .padding = 2, .height = 5, .width = 6},
                                         {2, 5, 6, 3}));
const RegisterSample max_eights(pool("max_pool2d, overlapping windows of 24 channels",
                                     MaxPool2d{.kernel = 3, .stride = 2, .padding = 1, .height = 9, .width = 14},
                                     {2, 9, 14, 24}));
const RegisterSample max_wide(pool("max_pool2d of rows of 1,152 elements", MaxPool2d{.height = 4, .width = 24},
                                   {1, 4, 24, 96}));
const RegisterSample relu_max_pool(pool("relu_max_pool2d", ReluMaxPool2d{.height = 7, .width = 4}, {2, 7, 4, 5}));
const RegisterSample relu_max_pool_overlapping(
    pool("relu_max_pool2d, overlapping windows",
         ReluMaxPool2d{.kernel = 3, .stride = 2, .padding = 1, .height = 5, .width = 6}, {3, 5, 6, 9}));
const RegisterSample avg_pool(pool("avg_pool2d", AvgPool2d{.height = 5, .width = 6}, {2, 5, 6, 67}));
const RegisterSample avg_pool_padded(pool("avg_pool2d, padding counted",
                                          AvgPool2d{.kernel = 3, .stride = 2, .padding = 1, .height = 6, .width = 5},
                                          {2, 6, 5, 3}));
const RegisterSample avg_pool_inside(
    pool("avg_pool2d, padding not counted",
         AvgPool2d{.kernel = 3, .stride = 1, .padding = 1, .count_include_pad = false, .height = 4, .width = 5},
         {2, 4, 5, 3}));
const RegisterSample avg_pool_partial(
    pool("avg_pool2d, a last window that the image does not fill",
         AvgPool2d{.count_include_pad = false, .ceil_mode = true, .height = 5, .width = 1}, {2, 5, 1, 3}));
const RegisterSample adaptive_up(pool("adaptive_avg_pool2d to more places",
                                      AdaptiveAvgPool2d{.out_height = 7, .out_width = 7, .height = 2, .width = 3},
                                      {2, 2, 3, 5}));
const RegisterSample adaptive_down(pool("adaptive_avg_pool2d to fewer places",
                                        AdaptiveAvgPool2d{.out_height = 3, .out_width = 2, .height = 5, .width = 4},
                                        {2, 5, 4, 3}));
const RegisterSample global_images(pool("global_avg_pool of images", GlobalAvgPool{.shape = {3, 4, 5, 7}},
                                        {3, 4, 5, 7}));
const RegisterSample global_tokens(pool("global_avg_pool of tokens", GlobalAvgPool{.shape = {2, 9, 5}}, {2, 9, 5}));

}  // namespace
}  // namespace lacuna
