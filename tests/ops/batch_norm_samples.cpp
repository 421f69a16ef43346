#include "ops/norms/batch_norm.h"
#include "tests/ops/op_sample.h"

namespace lacuna {
namespace {

const Shape images{3, 5, 3, 12};  // 45 rows: several runs of four and a rest

DType parameters_of(DType dtype) { return dtype == DType::f64 ? dtype : DType::f32; }

std::vector<Tensor> own_statistics(const Shape& shape, DType dtype) {
  const DType parameters = parameters_of(dtype);
  return {sample_values(shape, dtype, 1), sample_values({shape.back()}, parameters, 2),
          sample_values({shape.back()}, parameters, 3, -1, 1)};
}

std::vector<Tensor> given_statistics(const Shape& shape, DType dtype) {
  std::vector<Tensor> inputs = own_statistics(shape, dtype);
  inputs.push_back(sample_values({shape.back()}, parameters_of(dtype), 4, -0.5, 0.5));
  inputs.push_back(sample_values({shape.back()}, parameters_of(dtype), 5, 0.5, 2));
  return inputs;
}

const RegisterSample plain({.name = "batch_norm",
                            .op = bound(BatchNorm{}),
                            .inputs = [](DType dtype) { return own_statistics(images, dtype); },
                            .differentiable = {0, 1, 2}});
const RegisterSample large_eps({.name = "batch_norm of rows, large eps",
                                .op = bound(BatchNorm{.eps = 0.1}),
                                .inputs =
                                    [](DType dtype) {
                                      return own_statistics({7, 5}, dtype);
                                    },
                                .differentiable = {0, 1, 2}});
const RegisterSample relu({.name = "batch_norm_relu",
                           .op = bound(BatchNormRelu{}),
                           .inputs = [](DType dtype) { return own_statistics(images, dtype); },
                           .differentiable = {0, 1, 2}});
const RegisterSample add_relu({.name = "batch_norm_add_relu",
                               .op = bound(BatchNormAddRelu{}),
                               .inputs =
                                   [](DType dtype) {
                                     std::vector<Tensor> inputs = own_statistics(images, dtype);
                                     inputs.push_back(sample_values(images, dtype, 6));
                                     return inputs;
                                   },
                               .differentiable = {0, 1, 2, 3}});
const RegisterSample frozen({.name = "frozen_batch_norm",
                             .op = bound(FrozenBatchNorm{}),
                             .inputs = [](DType dtype) { return given_statistics(images, dtype); },
                             .differentiable = {0, 1, 2}});
const RegisterSample frozen_relu({.name = "frozen_batch_norm_relu",
                                  .op = bound(FrozenBatchNormRelu{}),
                                  .inputs =
                                      [](DType dtype) {
                                        std::vector<Tensor> inputs = given_statistics(images, dtype);
                                        inputs.emplace_back();
                                        return inputs;
                                      },
                                  .differentiable = {0, 1, 2}});
const RegisterSample frozen_add_relu({.name = "frozen_batch_norm_relu after a residual",
                                      .op = bound(FrozenBatchNormRelu{}),
                                      .inputs =
                                          [](DType dtype) {
                                            std::vector<Tensor> inputs = given_statistics(images, dtype);
                                            inputs.push_back(sample_values(images, dtype, 6));
                                            return inputs;
                                          },
                                      .differentiable = {0, 1, 2, 5}});

}  // namespace
}  // namespace lacuna
