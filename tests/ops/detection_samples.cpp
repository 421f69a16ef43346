// Losses of detection: rows that are left out, backgrounds, several blocks.
#include "ops/detection/box_losses.h"
#include "tests/ops/op_sample.h"

#include <numeric>

namespace lacuna {
namespace {

OpSample focal(std::string name, std::int64_t rows, std::int64_t classes, FocalLoss op) {
  return {.name = std::move(name),
          .op = bound(op),
          .inputs =
              [=](DType dtype) {
                std::vector<std::int64_t> labels;
                for (std::int64_t m = 0; m < rows; ++m) labels.push_back(m % 4 == 3 ? -2 : m * 5 % (classes + 1) - 1);
                return std::vector{sample_values({rows, classes}, dtype, 1, -3, 3),
                                   Tensor::from(std::span<const std::int64_t>(labels), {rows}),
                                   sample_values({rows}, compute_type(dtype), 2, 0.1, 1)};
              },
          .differentiable = {0}};
}
const RegisterSample focals[] = {RegisterSample(focal("focal_loss", 7, 5, {})),
                                 RegisterSample(focal("focal_loss, another gamma", 6, 3, {.alpha = 0.5, .gamma = 1.5})),
                                 RegisterSample(focal("focal_loss, several blocks", 700, 9, {}))};

OpSample smooth(std::string name, std::int64_t all, std::int64_t rows, double beta) {
  return {.name = std::move(name),
          .op = bound(RowSmoothL1{.shape = {all, 4}, .beta = beta}),
          .inputs =
              [=](DType dtype) {
                std::vector<std::int64_t> numbers;
                for (std::int64_t r = 0; r < rows; ++r) numbers.push_back((r * 7 + 2) % all);
                return std::vector{sample_values({all, 4}, dtype, 1),
                                   Tensor::from(std::span<const std::int64_t>(numbers), {rows}),
                                   sample_values({rows, 4}, compute_type(dtype), 2),
                                   sample_values({rows}, compute_type(dtype), 3, 0.1, 1)};
              },
          .differentiable = {0}};
}
const RegisterSample smooths[] = {RegisterSample(smooth("row_smooth_l1", 9, 5, 0.4)),
                                  RegisterSample(smooth("row_smooth_l1, l1", 9, 4, 0)),
                                  RegisterSample(smooth("row_smooth_l1, several blocks", 2000, 1500, 0.1))};

}  // namespace
}  // namespace lacuna
