#include "ops/shapes/patch_merging.h"
#include "tests/ops/op_sample.h"

namespace lacuna {
namespace {

OpSample sample(std::string name, const Shape& shape) {
  return {.name = std::move(name),
          .op = bound(PatchMerging{.height = shape[1], .width = shape[2]}),
          .inputs = [=](DType dtype) { return std::vector{sample_values(shape, dtype, 1)}; },
          .differentiable = {PatchMerging::x}};
}

const RegisterSample samples[] = {RegisterSample(sample("patch_merging", {2, 4, 6, 3})),
                                  RegisterSample(sample("patch_merging, odd map", {3, 5, 3, 2})),
                                  RegisterSample(sample("patch_merging, one place", {2, 1, 1, 5}))};

}  // namespace
}  // namespace lacuna
