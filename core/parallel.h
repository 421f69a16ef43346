// Parallel loops. The partition depends only on the amount of work and the number of threads, so results are bitwise
// reproducible.
#pragma once

#include "core/dtype.h"
#include "core/kernel_scope.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <string>

namespace lacuna {

/// Sets the number of compute threads of the process, data loader threads excluded. 0: OpenMP's default.
void set_threads(int count);

/// Sets the number of compute threads and restores the previous one on destruction.
class ThreadCountScope {
 public:
  explicit ThreadCountScope(int count);
  ~ThreadCountScope();
  ThreadCountScope(const ThreadCountScope&) = delete;
  ThreadCountScope& operator=(const ThreadCountScope&) = delete;

 private:
  int outer_;  // 0: not set
};

/// Processors that this process may run on.
int processors();
/// The processor's model name; `unknown` if the system reports none.
std::string processor_model();
/// Number of threads that a parallel loop would use here; 1 inside a parallel loop.
int threads();

/// Part `index` of [0, n), which is cut into `parts` parts as even as possible, in multiples of `unit`.
struct Range {
  std::int64_t begin = 0, end = 0;
};
inline Range part(std::int64_t n, std::int64_t index, std::int64_t parts, std::int64_t unit = 1) {
  const std::int64_t units = (n + unit - 1) / unit;
  return {std::min(n, units * index / parts * unit), std::min(n, units * (index + 1) / parts * unit)};
}

namespace detail {

/// Calls `f(i)` for i in [0, count), each on its own thread. Once all have ended, rethrows the exception of the lowest
/// i that threw.
template <class F>
void on_threads(int count, const F& f) {
  std::exception_ptr thrown;
  int thrower = count;
#pragma omp parallel for schedule(static, 1) num_threads(count)
  for (int i = 0; i < count; ++i) {
    try {
      const KernelScope scope;
      f(i);
    } catch (...) {
#pragma omp critical(lacuna_thrown)
      if (i < thrower) {
        thrown = std::current_exception();
        thrower = i;
      }
    }
  }
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace detail

/// Calls `f(begin, end)` for a partition of [0, n) into one range per thread; each but the last is a multiple of
/// `unit`. If n is below `serial_below`, one thread does everything.
template <class F>
void parallel_for(std::int64_t n, std::int64_t serial_below, F&& f, std::int64_t unit = 1) {
  const int count = threads();
  if (n < serial_below || count == 1) {
    if (n > 0) f(std::int64_t{0}, n);
    return;
  }
  detail::on_threads(count, [&](int i) {
    const Range range = part(n, i, count, unit);
    if (range.begin < range.end) f(range.begin, range.end);
  });
}

/// Calls `f(task, thread)` for each task in [0, n). Each task should be large enough to pay for a thread.
template <class F>
void parallel_tasks(std::int64_t n, F&& f) {
  const int count = threads();
  const auto share = [&](int i) {
    const Range range = part(n, i, count);
    for (std::int64_t task = range.begin; task < range.end; ++task) f(task, i);
  };
  if (count == 1)
    share(0);
  else
    detail::on_threads(count, share);
}

/// out[i] = f(in[i]...) in the compute type; elements are converted on the fly. All arrays: [n]. `out` may be one of
/// the inputs.
template <class Out, class F, class... In>
void map(std::int64_t n, const F& f, Out* out, const In*... in) {
  parallel_for(
      n, 16384,
      // Not inlined: with the body at two call sites, GCC kept math::normal a call in one of them, and its loop scalar.
      [&](std::int64_t begin, std::int64_t end) __attribute__((noinline)) {
  // Not `omp simd`: GCC does not vectorize conversions to bf16 and f16 under it.
#pragma GCC ivdep
        for (std::int64_t i = begin; i < end; ++i) out[i] = static_cast<Out>(f(to_compute(in[i])...));
      },
      64);
}

}  // namespace lacuna
