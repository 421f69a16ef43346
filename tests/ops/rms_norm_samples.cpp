#include "ops/norms/rms_norm.h"
#include "tests/ops/op_sample.h"

namespace lacuna {
namespace {

OpSample rms_norm(std::string name, RmsNorm op, Shape shape) {
  return {.name = std::move(name),
          .op = bound(op),
          .inputs =
              [=](DType dtype) {
                return std::vector{sample_values(shape, dtype, 1),
                                   sample_values({shape.back() / op.heads}, compute_type(dtype), 2, 0.5, 1.5)};
              },
          .differentiable = {0, 1}};
}

const RegisterSample rms_norms[] = {
    RegisterSample(rms_norm("rms_norm", {}, {3, 5, 37})),
    RegisterSample(rms_norm("rms_norm with an offset and a large eps", {.eps = 0.5, .offset = 1}, {4, 3})),
    RegisterSample(rms_norm("rms_norm of each head", {.offset = 1, .heads = 3}, {1, 7, 24})),
    RegisterSample(rms_norm("rms_norm of each odd head", {.heads = 2}, {1, 7, 10})),
    RegisterSample(rms_norm("rms_norm of many rows", {}, {701, 29})),
    // GPUs give a row to a warp or to a block, by its length.
    RegisterSample(rms_norm("rms_norm of 264 columns", {}, {7, 264})),
    RegisterSample(rms_norm("rms_norm of 520 columns", {}, {6, 520})),
    RegisterSample(rms_norm("rms_norm of 709 columns", {}, {3, 709})),
    RegisterSample(rms_norm("rms_norm of 776 columns", {}, {5, 776})),
    RegisterSample(rms_norm("rms_norm of 1,032 columns", {}, {3, 1032}))};

}  // namespace
}  // namespace lacuna
