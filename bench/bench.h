// Helpers shared by the benchmarks.
#pragma once

#include "core/median.h"
#include "core/parallel.h"
#include "ops/kernels/tile.h"
#include "ops/operand.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <vector>

namespace lacuna::bench {

using lacuna::median;

/// The shortest time of `f` in seconds, over at least five runs and `budget` seconds, after two warm-up runs.
template <class F>
double seconds(F&& f, double budget = 0.3) {
  using Clock = std::chrono::steady_clock;
  const auto once = [&] {
    const auto begin = Clock::now();
    f();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  once();
  once();
  double best = std::numeric_limits<double>::infinity(), spent = 0;
  for (int run = 0; run < 5 || spent < budget; ++run) {
    const double time = once();
    best = std::min(best, time);
    spent += time;
  }
  return best;
}

/// Bandwidth of a copy on all threads, in GB/s read plus written: the reference for memory-bound ops.
inline double copy_rate(const Tensor& from, const Tensor& to) {
  const double time = seconds([&] {
    parallel_for(
        from.bytes(), 0,
        [&](std::int64_t begin, std::int64_t end) {
          std::memcpy(to.raw() + begin, from.raw() + begin, static_cast<std::size_t>(end - begin));
        },
        4096);
  });
  return 2e-9 * static_cast<double>(from.bytes()) / time;
}

/// Read bandwidth on all threads, in GB/s.
inline double read_rate(const Tensor& from) {
  constexpr std::int64_t chains = 8;  // independent sums
  const Tensor sums = Tensor::zeros({threads(), chains * tile::lanes<float>}, DType::f32, Device::cpu);
  const double time = seconds([&] {
    parallel_tasks(threads(), [&](std::int64_t task, std::int64_t) {
      const Range range = part(from.count(), task, threads(), chains * tile::lanes<float>);
      const float* const in = from.data<float>();
      tile::Vector<float> sum[chains] = {};
      for (std::int64_t i = range.begin; i + chains * tile::lanes<float> <= range.end; i += chains * tile::lanes<float>)
        for (std::int64_t c = 0; c < chains; ++c) sum[c] += tile::load(in + i + c * tile::lanes<float>);
      for (std::int64_t c = 0; c < chains; ++c)  // uses the sums, so that the compiler keeps the reads
        tile::store(sums.data<float>() + (task * chains + c) * tile::lanes<float>, sum[c]);
    });
  });
  return 1e-9 * static_cast<double>(from.bytes()) / time;
}

/// Peak single-precision FLOP/s on all threads: two per multiply-add, with operands in registers.
inline double peak_flops() {
  constexpr int chains = 12;
  constexpr std::int64_t steps = 200'000;
  std::vector<float> results(static_cast<std::size_t>(threads()));
  const double time = seconds([&] {
    parallel_tasks(threads(), [&](std::int64_t task, std::int64_t) {
      tile::Vector<float> sums[chains];  // different initial values, since the compiler would merge equal chains
      for (int c = 0; c < chains; ++c) sums[c] = tile::Vector<float>{} + static_cast<float>(c);
      const tile::Vector<float> factor = tile::Vector<float>{} + 0.999F;
      for (std::int64_t i = 0; i < steps; ++i) {
#pragma GCC unroll 16
        for (int c = 0; c < chains; ++c) sums[c] = sums[c] * factor + factor;
      }
      for (const auto& sum : sums) results[static_cast<std::size_t>(task)] += sum[0];
    });
  });
  return 2.0 * chains * static_cast<double>(tile::lanes<float> * steps * threads()) / time;
}

/// Keeps everything an op saves, exactly.
class KeptTensors final : public SavedTensors {
 public:
  KeptTensors(std::span<const Save> saves, std::span<const Tensor> inputs, const Tensor& out,
              std::span<const Tensor> extra_outputs) {
    for (const Save& save : saves) {
      if (save.from.kind == Source::Kind::input)
        tensors_.push_back(inputs[save.from.index]);
      else if (save.from.kind == Source::Kind::output)
        tensors_.push_back(out);
      else
        tensors_.push_back(extra_outputs[save.from.index]);
    }
  }
  bool present(std::size_t row) const override { return tensors_[row].defined(); }
  Operand operand(std::size_t row) const override { return Operand(tensors_[row]); }
  Shape shape(std::size_t row) const override { return tensors_[row].shape(); }

 private:
  std::vector<Tensor> tensors_;
};

}  // namespace lacuna::bench
