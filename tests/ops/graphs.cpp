// Results on graphs for any number of threads.
#include "core/parallel.h"
#include "ops/graphs/graph_attention.h"
#include "ops/graphs/graph_product.h"
#include "tests/ops/op_run.h"
#include "tests/ops/op_sample.h"

#include <doctest/doctest.h>

namespace lacuna {

TEST_CASE("graphs: forward and backward have the same bits for any number of threads") {
  int checked = 0;
  for (const OpSample& sample : op_samples()) {
    const std::string_view name = sample.op->name();
    if (name != GraphProduct::name && name != GraphAttention::name && name != SegmentSum::name) continue;
    CAPTURE(sample.name);
    const std::vector<Tensor> inputs = sample.inputs(DType::f32);
    const auto run = [&](int count) {
      const ThreadCountScope scope(count);
      const Result result = forward(*sample.op, inputs);
      std::vector<Tensor> all = result.outputs;
      for (const Tensor& gradient : backward(*sample.op, result, projections(result), sample.differentiable))
        all.push_back(gradient);
      return all;
    };
    const std::vector<Tensor> one = run(1);
    for (const int count : {2, 3, 5}) {
      const std::vector<Tensor> several = run(count);
      for (std::size_t i = 0; i < one.size(); ++i)
        if (one[i].defined()) CHECK(same_bits(one[i], several[i]));
    }
    ++checked;
  }
  CHECK(checked > 0);
}

}  // namespace lacuna
