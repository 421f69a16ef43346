// Benchmark of causal attention, forward and backward, relative to the peak multiply-add rate in registers. Work counts
// the pairs of a query and a key that it sees: 2 products forward and 5 backward.
#include "ops/attention/causal_attention.h"
#include "bench/bench.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>

namespace {

using namespace lacuna;

struct Problem {
  std::int64_t sequences, length, heads, kv_heads, head_dim, window = 0;
};

void measure(const Problem& of, double peak) {
  std::vector<std::int64_t> offsets;
  for (std::int64_t i = 0; i <= of.sequences; ++i) offsets.push_back(i * of.length);
  const CausalAttention causal{
      .heads = of.heads, .kv_heads = of.kv_heads, .sequences = Sequences::packed(offsets), .window = of.window};
  const Bound<CausalAttention> op(causal);
  std::vector<Tensor> inputs;
  for (const std::int64_t heads : {of.heads, of.kv_heads, of.kv_heads}) {
    std::vector<float> values(static_cast<std::size_t>(of.sequences * of.length * heads * of.head_dim));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 2654435761U % 1000) / 500 - 1;
    inputs.push_back(Tensor::from(std::span<const float>(values), {1, of.sequences * of.length, heads * of.head_dim}));
  }
  std::vector<Tensor> extra_outputs;
  const Tensor out = op.forward(inputs, extra_outputs).front();
  const bench::KeptTensors saved(op.saves(), inputs, out, extra_outputs);
  const double forward = bench::seconds([&] { op.forward(inputs, extra_outputs); });
  const double backward = bench::seconds([&] {
    Grads grads(3, {CausalAttention::q, CausalAttention::k, CausalAttention::v});
    op.backward({out}, saved, grads);
  });
  const std::array shapes{inputs[0].shape(), inputs[1].shape(), inputs[2].shape()};
  const double product = static_cast<double>(causal.macs(shapes, out.shape()));  // 2 operations, half of the products
  fmt::print(
      "{:>2} x {:>4}, {:>2} heads of {:>2}, d {:>3}, window {:>4}: forward {:>4.2f} of peak {:>8.3f} ms   "
      "backward {:>4.2f} of peak {:>8.3f} ms\n",
      of.sequences, of.length, of.heads, of.kv_heads, of.head_dim, of.window, 2 * product / forward / peak,
      forward * 1e3, 5 * product / backward / peak, backward * 1e3);
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 1) set_threads(std::atoi(arguments[1]));
  const double peak = bench::peak_flops();
  fmt::print("{} threads, peak {:.1f} GFLOP/s\n", threads(), peak * 1e-9);
  measure({1, 512, 14, 2, 64}, peak);
  measure({2, 512, 12, 12, 64}, peak);
  measure({1, 1024, 32, 8, 64}, peak);
  measure({1, 2048, 32, 32, 128}, peak);
  measure({1, 2048, 4, 1, 256, 512}, peak);
  measure({8, 128, 12, 12, 64}, peak);
  fmt::print("peak again {:.1f} GFLOP/s\n", bench::peak_flops() * 1e-9);
}
