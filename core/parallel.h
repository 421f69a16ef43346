// Work shared among threads. The split depends on the amount of work and the number of threads alone: the same bits
// come out every time.
#pragma once

#include "core/dtype.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <string>

namespace lacuna {

/// Threads that compute (not those that load data). 0 asks for as many as the machine has.
void set_threads(int count);
/// Processors that this process may run on.
int processors();
/// The model that the system names; `unknown` where it names none.
std::string processor_model();
/// Among how many work is shared: 1 where it is one thread's share already.
int threads();

/// Part `index` of `parts` of [0, n) in multiples of `unit`: as even as can be.
struct Range {
  std::int64_t begin = 0, end = 0;
};
inline Range part(std::int64_t n, std::int64_t index, std::int64_t parts, std::int64_t unit = 1) {
  const std::int64_t units = (n + unit - 1) / unit;
  return {std::min(n, units * index / parts * unit), std::min(n, units * (index + 1) / parts * unit)};
}

namespace detail {

/// Calls `f(i)` for i in [0, count), on a thread each. What one of them throws, the one of the lowest i if several do,
/// is thrown when all have ended.
template <class F>
void on_threads(int count, const F& f) {
  std::exception_ptr thrown;
  int thrower = count;
#pragma omp parallel for schedule(static, 1) num_threads(count)
  for (int i = 0; i < count; ++i) {
    try {
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

/// Calls `f(begin, end)` for a partition of [0, n), one range a thread, each a multiple of `unit` but the last;
/// one range in all when n is below `serial_below`.
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

/// Calls `f(task, thread)` for each task in [0, n): for tasks that are worth a thread's while.
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

/// out[i] = f(in[i]...) in the compute type, elements converted on the way. All arrays: [n].
/// An output may be one of the inputs.
template <class Out, class F, class... In>
void map(std::int64_t n, const F& f, Out* out, const In*... in) {
  parallel_for(
      n, 16384,
      // One body for one thread and many: put in line at both calls, it left GELU's math::normal a call in one of them,
      // whose loop then stayed scalar.
      [&](std::int64_t begin, std::int64_t end) __attribute__((noinline)) {
  // Not `omp simd`: that keeps GCC from making vector code of a conversion to bf16 or f16.
#pragma GCC ivdep
        for (std::int64_t i = begin; i < end; ++i) out[i] = static_cast<Out>(f(to_compute(in[i])...));
      },
      64);
}

}  // namespace lacuna
