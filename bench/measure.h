// What the measuring programs share: least times, the machine's peak, an op run by itself.
#pragma once

#include "core/op.h"
#include "core/parallel.h"
#include "ops/tile.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace lacuna::bench {

/// The least of some runs, in seconds: other work on the machine only ever adds to a time.
template <class F>
double fastest(int repetitions, F&& f) {
  double least = 1e9;
  for (int i = 0; i < repetitions; ++i) {
    const auto start = std::chrono::steady_clock::now();
    f();
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return least;
}

/// Single-precision multiply-adds a second on all threads, out of registers, times two.
inline double peak_flops() {
  constexpr int chains = 12;
  constexpr std::int64_t steps = 200'000;
  std::vector<float> results(static_cast<std::size_t>(threads()));
  const double seconds = fastest(20, [&] {
    parallel_tasks(threads(), [&](std::int64_t task, std::int64_t) {
      tile::Vector<float> sums[chains];  // each with another start: equal ones would be computed once
      for (int c = 0; c < chains; ++c) sums[c] = tile::Vector<float>{} + static_cast<float>(c);
      const tile::Vector<float> factor = tile::Vector<float>{} + 0.999F;
      for (std::int64_t i = 0; i < steps; ++i) {
#pragma GCC unroll 16
        for (int c = 0; c < chains; ++c) sums[c] = sums[c] * factor + factor;
      }
      for (const auto& sum : sums) results[static_cast<std::size_t>(task)] += sum[0];
    });
  });
  return 2.0 * chains * static_cast<double>(tile::lanes<float> * steps * threads()) / seconds;
}

/// Everything an op saves, kept as it is.
class KeptTensors final : public SavedTensors {
 public:
  KeptTensors(std::span<const Save> saves, std::span<const Tensor> inputs, const Tensor& out,
              std::span<const Tensor> aux) {
    for (const Save& save : saves) {
      if (save.from.kind == Source::Kind::input)
        tensors_.push_back(inputs[save.from.index]);
      else if (save.from.kind == Source::Kind::output)
        tensors_.push_back(out);
      else
        tensors_.push_back(aux[save.from.index]);
    }
  }
  Tensor whole(std::size_t row) const override { return tensors_[row]; }
  Tensor rows(std::size_t row, std::int64_t begin, std::int64_t end) const override {
    return tensors_[row].row_range(begin, end);
  }
  std::int64_t rows_at_once(std::size_t row) const override { return tensors_[row].rows(); }
  Signs signs(std::size_t row) const override { return {tensors_[row], {}}; }

 private:
  std::vector<Tensor> tensors_;
};

}  // namespace lacuna::bench
