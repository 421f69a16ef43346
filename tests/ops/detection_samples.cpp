// Losses of detection: rows that are left out, backgrounds, several blocks.
#include "ops/detection/box_losses.h"
#include "ops/detection/roi_align.h"
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

/// Boxes of two images on maps of stride 4 and 8: large and small ones, one over the edge, one without extent.
OpSample rois(std::string name, std::int64_t channels, RoiAlign op) {
  op.shapes = {{2, 6, 8, channels}, {2, 3, 4, channels}};
  op.scales = {0.25, 0.125};
  return {.name = std::move(name),
          .op = bound(op),
          .inputs =
              [=](DType dtype) {
                const std::vector<double> corners{2,  3,  20.5, 17, 8,  1, 8.5, 1.4, -6, -9, 14, 30,
                                                  20, 10, 40,   23, 12, 4, 12,  4,   0,  0,  32, 24};
                const std::vector<std::int64_t> places{0, 0, 0, 1, 1, 1, 0, 1, 0, 0, 1, 0};
                return std::vector{
                    Tensor::from(std::span<const double>(corners), {6, 4}, compute_type(dtype), Device::cpu),
                    Tensor::from(std::span<const std::int64_t>(places), {6, 2}), sample_values(op.shapes[0], dtype, 1),
                    sample_values(op.shapes[1], dtype, 2)};
              },
          .differentiable = {2, 3}};
}
const RegisterSample aligns[] = {
    RegisterSample(rois("roi_align", 16, {.bins = 3})),
    RegisterSample(rois("roi_align, a sample for each place", 5, {.bins = 2, .samples = 0})),
    RegisterSample(rois("roi_align, aligned", 11, {.bins = 2, .aligned = true}))};

}  // namespace
}  // namespace lacuna
