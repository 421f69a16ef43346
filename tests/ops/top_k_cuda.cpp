#include "core/tensor.h"
#include "ops/losses/top_k.h"
#include "tests/ops/op_sample.h"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

namespace lacuna {

TEST_CASE("cuda: counts of correct predictions are those of the CPU") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t classes : {std::int64_t{5}, std::int64_t{300}}) {
      Tensor logits = sample_values({40, classes}, dtype, 1, 0, 8);
      std::vector<double> values = logits.to_vector();
      for (std::size_t i = 0; i < values.size(); i += 3) values[i] = 4;  // ties
      values[7] = std::numeric_limits<double>::quiet_NaN();
      logits = Tensor::from(std::span<const double>(values), logits.shape(), dtype);
      std::vector<std::int64_t> labels(40);
      for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int64_t>(i * 7) % (classes + 1);
      const std::vector<std::int64_t> k{1, 3, 5};
      for (const Tensor& targets : {Tensor::from(std::span<const std::int64_t>(labels), {40}),
                                    sample_values({40, classes}, DType::f32, 2, 0, 1)}) {
        const Tensor here = Tensor::full({3}, 2, DType::f64, Device::cpu), there = here.to(Device::cuda);
        count_top_k(Device::cpu, logits, targets, k, here);
        count_top_k(Device::cuda, logits.to(Device::cuda), targets.to(Device::cuda), k, there);
        CHECK(there.to_vector() == here.to_vector());
      }
      const Tensor here = Tensor::zeros({40}, DType::i64, Device::cpu), there = here.to(Device::cuda);
      find_largest(Device::cpu, logits, here);
      find_largest(Device::cuda, logits.to(Device::cuda), there);
      CHECK(there.to_vector() == here.to_vector());
    }
  }
}

}  // namespace lacuna
