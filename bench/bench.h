// What the measurements share.
#pragma once

#include "core/op.h"
#include "core/parallel.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <vector>

namespace lacuna::bench {

/// The shortest of many runs of `f`, in seconds: `budget` of time, five runs at least, after two that warm up.
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

/// What a copy on all threads reaches, in GB/s read and written: the measure for everything that is bound by memory.
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

/// Saved tensors that are all kept, as they are.
struct Kept final : SavedTensors {
  std::vector<Tensor> tensors;  // a row of the table each
  Tensor whole(std::size_t row) const override { return tensors[row]; }
  Tensor rows(std::size_t row, std::int64_t begin, std::int64_t end) const override {
    return tensors[row].row_range(begin, end);
  }
  std::int64_t rows_at_once(std::size_t row) const override { return tensors[row].rows(); }
  Signs signs(std::size_t row) const override { return {.values = tensors[row], .bits = {}}; }
};

}  // namespace lacuna::bench
