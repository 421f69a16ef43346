// Benchmark of fused attention, forward and backward, relative to the peak multiply-add rate in registers. Work counts
// the matrix products per head: 2 forward and 5 backward, 2·n·L·d operations each.
#include "ops/attention/attention.h"
#include "bench/bench.h"

#include <fmt/format.h>

#include <cstdlib>

namespace {

using namespace lacuna;

void measure(std::int64_t images, std::int64_t length, std::int64_t heads, std::int64_t head_dim, std::int64_t queries,
             double peak) {
  std::vector<float> values(static_cast<std::size_t>(images * length * 3 * heads * head_dim));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 2654435761U % 1000) / 500 - 1;
  const Bound<Attention> op({.heads = heads, .queries = queries});
  const std::vector<Tensor> inputs{
      Tensor::from(std::span<const float>(values), {images, length, 3 * heads * head_dim}), {}, {}};
  std::vector<Tensor> extra_outputs;
  const Tensor out = op.forward(inputs, extra_outputs).front();
  const bench::KeptTensors saved(op.saves(), inputs, out, extra_outputs);

  const double forward = bench::seconds([&] {
    std::vector<Tensor> again;
    op.forward(inputs, again);
  });
  const double backward = bench::seconds([&] {
    Grads grads(3, {Attention::qkv});
    op.backward({out}, saved, grads);
  });
  const double product = 2.0 * static_cast<double>(images * heads * out.shape()[1] * length * head_dim);
  fmt::print(
      "{:>4} x {:>2} heads, L {:>4}, n {:>4}, d {:>3}: forward {:>6.1f} GFLOP/s {:>4.2f} of peak {:>8.3f} ms   "
      "backward {:>6.1f} GFLOP/s {:>4.2f} of peak {:>8.3f} ms\n",
      images, heads, length, out.shape()[1], head_dim, 2e-9 * product / forward, 2 * product / forward / peak,
      forward * 1e3, 5e-9 * product / backward, 5 * product / backward / peak, backward * 1e3);
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 1) set_threads(std::atoi(arguments[1]));
  const double peak = bench::peak_flops();
  fmt::print("{} threads, peak {:.1f} GFLOP/s\n", threads(), peak * 1e-9);
  measure(16, 197, 3, 64, 0, peak);
  measure(8, 197, 6, 64, 0, peak);
  measure(128, 65, 3, 64, 0, peak);
  measure(16, 197, 3, 64, 1, peak);
  measure(1, 577, 12, 64, 0, peak);
  measure(16, 128, 12, 64, 0, peak);
  measure(64, 49, 6, 32, 0, peak);
  fmt::print("peak again {:.1f} GFLOP/s\n", bench::peak_flops() * 1e-9);
}
