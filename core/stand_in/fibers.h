// The stand-in: a device on the CPU on which kernels are tested. Threads of a block are fibers; blocks run one after
// the other. A schedule determines the order of threads and blocks and the time at which a stream's work runs; results
// must not depend on it.
#pragma once

#include "core/stream.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>

namespace lacuna::cuda::stand_in {

using Body = std::function<void(std::byte* shared, std::int64_t block, int thread)>;

struct Grid {
  std::int64_t blocks;
  int threads;  // per block
  std::size_t shared_bytes;
};

/// Runs `body` for each thread of each block. Rethrows a thread's exception. Throws an error on a deadlock: a barrier
/// that some threads do not reach, or a warp shuffle that some lanes skip.
void run_blocks(const Grid& grid, const Body& body);

/// Queues run_blocks on the stream.
void launch(Stream stream, const Grid& grid, Body body);

/// Sets the schedule while it lives. Seed 0 (the default without a scope) runs threads and blocks in ascending order,
/// seed 1 in descending order, any other seed in a random order drawn from it. With an even seed a stream's work runs
/// at once, with an odd one only when the host synchronizes.
class ScheduleScope {
 public:
  explicit ScheduleScope(std::uint64_t seed);
  ~ScheduleScope();
  ScheduleScope(const ScheduleScope&) = delete;
  ScheduleScope& operator=(const ScheduleScope&) = delete;
};

// Functions that a kernel's threads call.

void sync();
namespace detail {
/// Waits until all lanes of the warp have provided a value; returns the array of values.
const std::uint64_t* gather(std::uint64_t word, int& lane);
}  // namespace detail
template <class F>
std::uint64_t exchange(std::uint64_t word, const F& source_of) {
  int lane;
  const std::uint64_t* const words = detail::gather(word, lane);
  return words[source_of(lane) % 32];
}
inline std::uint32_t ballot(bool predicate) {
  int lane;
  const std::uint64_t* const words = detail::gather(predicate ? 1 : 0, lane);
  std::uint32_t bits = 0;
  for (int i = 0; i < 32; ++i) bits |= static_cast<std::uint32_t>(words[i] != 0) << i;
  return bits;
}
inline void expect_aligned(const void* address, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(address) % bytes != 0) throw std::logic_error("a pack is not aligned");
}

}  // namespace lacuna::cuda::stand_in
