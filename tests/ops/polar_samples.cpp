#include "tests/ops/op_sample.h"
#include "tests/ops/polar.h"

namespace lacuna {
namespace {

const RegisterSample polar(
    {.name = "polar_to_cartesian",
     .op = bound(PolarToCartesian{}),
     .inputs =
         [](DType dtype) {
           return std::vector{sample_values({3, 5, 7}, dtype, 1), sample_values({3, 5, 7}, dtype, 2)};
         },
     .differentiable = {0, 1}});

}  // namespace
}  // namespace lacuna
