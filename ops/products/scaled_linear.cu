#include "ops/products/scaled_linear_cuda.h"

#include "core/block.h"

namespace lacuna::cuda {
namespace {

struct Scaled {
  static constexpr int threads = 256;
  ScaleRows what;
  LACUNA_DEVICE void operator()(const Block<Scaled>& block) const {
    const std::int64_t i = block.global_thread();
    if (i < what.rows * what.width) what.to[i] = what.factors[i / what.width] * what.from[i];
  }
};

/// A block a row.
struct Gradient {
  static constexpr int threads = 128;
  struct Shared {
    float sums[threads / warp_size];
  };
  ScaleGradient what;
  LACUNA_DEVICE void operator()(const Block<Gradient>& block) const {
    const std::int64_t row = block.index(), first = row * what.width;
    float sum = 0;
    for (std::int64_t j = block.thread(); j < what.width; j += threads)
      sum += what.weight[first + j] * what.weight_sums[first + j];
    sum = joined_of_block(block, sum, block.shared().sums, Plus{});
    if (block.thread() == 0) what.to[row] = what.bias == nullptr ? sum : sum + what.bias[row] * what.bias_sums[row];
  }
};

}  // namespace

void scale_rows(Stream stream, const ScaleRows& what) {
  run(stream, divide_up(what.rows * what.width, Scaled::threads), Scaled{what});
}
void scale_gradient(Stream stream, const ScaleGradient& what) { run(stream, what.rows, Gradient{what}); }

}  // namespace lacuna::cuda
