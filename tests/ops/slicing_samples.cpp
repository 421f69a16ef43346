#include "ops/shapes/concat_channels.h"
#include "ops/shapes/slicing.h"
#include "tests/ops/op_sample.h"

namespace lacuna {
namespace {

OpSample unary(std::string name, std::shared_ptr<const Operation> op, Shape shape) {
  return {.name = std::move(name),
          .op = std::move(op),
          .inputs = [shape](DType dtype) { return std::vector{sample_values(shape, dtype, 1)}; },
          .differentiable = {0}};
}

const RegisterSample tokens({.name = "concat of tokens",
                             .op = bound(Concat{.axis = 1, .extents = {1, 5, 2}}),
                             .inputs =
                                 [](DType dtype) {
                                   return std::vector{sample_values({3, 1, 7}, dtype, 1),
                                                      sample_values({3, 5, 7}, dtype, 2),
                                                      sample_values({3, 2, 7}, dtype, 3)};
                                 },
                             .differentiable = {0, 1, 2}});
OpSample side_by_side(std::string name, std::vector<std::int64_t> channels, std::int64_t rows) {
  InputSet differentiable;
  for (std::size_t i = 0; i < channels.size(); ++i) differentiable.insert(static_cast<int>(i));
  return {.name = std::move(name),
          .op = bound(ConcatChannels{.channels = channels}),
          .inputs =
              [=](DType dtype) {
                std::vector<Tensor> inputs;
                for (std::size_t i = 0; i < channels.size(); ++i)
                  inputs.push_back(sample_values({2, rows, 3, channels[i]}, dtype, static_cast<std::uint32_t>(i)));
                return inputs;
              },
          .differentiable = differentiable};
}
const RegisterSample two_maps(side_by_side("concat_channels of two maps", {8, 24}, 5));
const RegisterSample odd_maps(side_by_side("concat_channels of odd maps", {1, 7, 130, 3}, 2));

const RegisterSample channels(
    {.name = "concat of channels",
     .op = bound(Concat{.axis = 2, .extents = {4, 300}}),
     .inputs =
         [](DType dtype) {
           return std::vector{sample_values({9, 11, 4}, dtype, 1), sample_values({9, 11, 300}, dtype, 2)};
         },
     .differentiable = {0, 1}});
const RegisterSample first(unary("slice of the first token", bound(Slice{.axis = 1, .begin = 0, .end = 1, .extent = 5}),
                                 {3, 5, 7}));
const RegisterSample middle(unary("slice of samples", bound(Slice{.axis = 0, .begin = 1, .end = 4, .extent = 5}),
                                  {5, 3, 2}));
const RegisterSample last(unary("slice of channels", bound(Slice{.axis = 2, .begin = 2, .end = 7, .extent = 7}),
                                {3, 5, 7}));

OpSample expand(DType to, std::vector<DType> types) {
  return {.name = "expand to " + std::string(name_of(to)),
          .op = bound(Expand{.count = 4, .dtype = to}),
          .inputs =
              [](DType dtype) {
                return std::vector{sample_values({1, 3, 7}, compute_type(dtype), 1)};
              },
          .differentiable = {0},
          .types = std::move(types)};
}

const RegisterSample expanded(expand(DType::f32, {DType::f64, DType::f32}));
const RegisterSample expanded_to_bf16(expand(DType::bf16, {DType::bf16}));
const RegisterSample expanded_to_f16(expand(DType::f16, {DType::f16}));

}  // namespace
}  // namespace lacuna
