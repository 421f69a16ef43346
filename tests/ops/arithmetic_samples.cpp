#include "ops/arithmetic/arithmetic.h"
#include "ops/arithmetic/gate_channels.h"
#include "tests/ops/op_sample.h"

namespace lacuna {
namespace {

OpSample pair(std::string name, std::shared_ptr<const Operation> op, Shape shape) {
  return {.name = std::move(name),
          .op = std::move(op),
          .inputs =
              [shape](DType dtype) {
                return std::vector{sample_values(shape, dtype, 1), sample_values(shape, dtype, 2)};
              },
          .differentiable = {0, 1}};
}

OpSample broadcast(std::string name, Shape shape, Shape repeated) {
  return {.name = std::move(name),
          .op = bound(AddBroadcast{.shape = repeated}),
          .inputs =
              [=](DType dtype) {
                return std::vector{sample_values(shape, dtype, 1), sample_values(repeated, compute_type(dtype), 2)};
              },
          .differentiable = {0, 1}};
}

const RegisterSample add(pair("add", bound(Add{}), {3, 5, 7}));
const RegisterSample add_large(pair("add of many elements", bound(Add{}), {67, 301}));
const RegisterSample mul(pair("mul", bound(Mul{}), {3, 5, 7}));
const RegisterSample position_embedding(broadcast("add_broadcast of [1, L, D]", {4, 5, 7}, {1, 5, 7}));
const RegisterSample bias(broadcast("add_broadcast of [C]", {4, 5, 7}, {7}));
const RegisterSample bias_of_many_rows(broadcast("add_broadcast of [C] to many rows", {2111, 37}, {37}));

OpSample gates(std::string name, Shape shape) {
  return {
      .name = std::move(name),
      .op = bound(GateChannels{.shape = shape}),
      .inputs =
          [shape](DType dtype) {
            return std::vector{sample_values(shape, dtype, 1), sample_values({shape.front(), shape.back()}, dtype, 2)};
          },
      .differentiable = {0, 1}};
}
const RegisterSample gate(gates("gate_channels", {3, 2, 5, 7}));
const RegisterSample gate_of_one_pixel(gates("gate_channels of one pixel", {4, 1, 1, 19}));
const RegisterSample gate_of_many_channels(gates("gate_channels of many channels", {2, 3, 1, 139}));

const RegisterSample scale({.name = "scale",
                            .op = bound(Scale{.factor = -1.7}),
                            .inputs =
                                [](DType dtype) {
                                  return std::vector{sample_values({3, 5, 7}, dtype, 1)};
                                },
                            .differentiable = {0}});

}  // namespace
}  // namespace lacuna
