#include "ops/losses/loss.h"
#include "tests/ops/op_sample.h"

#include "core/random.h"

namespace lacuna {
namespace {

OpSample with_labels(std::string name, double smoothing, std::int64_t rows, std::int64_t classes) {
  return {.name = std::move(name),
          .op = bound(CrossEntropy{.label_smoothing = smoothing}),
          .inputs =
              [=](DType dtype) {
                std::vector<std::int64_t> labels;
                for (std::int64_t i = 0; i < rows; ++i) labels.push_back(i * 7 % classes);
                return std::vector{sample_values({rows, classes}, dtype, 1),
                                   Tensor::from(std::span<const std::int64_t>(labels), {rows})};
              },
          .differentiable = {0}};
}

OpSample with_probabilities(std::string name, double smoothing) {
  return {.name = std::move(name),
          .op = bound(CrossEntropy{.label_smoothing = smoothing}),
          .inputs =
              [](DType dtype) {
                return std::vector{sample_values({5, 11}, dtype, 1),
                                   sample_values({5, 11}, compute_type(dtype), 2, 0, 0.3)};
              },
          .differentiable = {0}};
}

const RegisterSample labels(with_labels("cross_entropy", 0, 7, 11));
const RegisterSample smoothed(with_labels("cross_entropy with label smoothing", 0.1, 7, 11));
const RegisterSample many(with_labels("cross_entropy of many rows", 0.1, 700, 31));
const RegisterSample probabilities(with_probabilities("cross_entropy of probabilities", 0));
const RegisterSample smoothed_probabilities(with_probabilities("cross_entropy of smoothed probabilities", 0.2));

}  // namespace
}  // namespace lacuna
