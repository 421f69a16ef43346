// What the measurements share.
#pragma once

#include <algorithm>
#include <chrono>
#include <limits>

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

}  // namespace lacuna::bench
