// A device on the CPU, on which kernels are tested: threads of a block are fibers, blocks run one after the other. The
// schedule decides in which order they run and when a stream's work is done; results must not depend on it.
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
  int threads;  // of a block
  std::size_t shared_bytes;
};

/// Runs `body` for each thread of each block. Throws what a thread throws, and an error if threads wait for what cannot
/// happen: a barrier that some do not reach, an exchange within a warp that lanes leave out.
void run_blocks(const Grid& grid, const Body& body);

/// Queues run_blocks on the stream.
void launch(Stream stream, const Grid& grid, Body body);

/// Sets the order of things while it lives. 0, as without one: threads and blocks run in ascending order; 1:
/// descending; any other: in an order drawn from it. If it is even, a stream's work is done at once; if it is odd, only
/// when the host synchronizes.
class ScheduleScope {
 public:
  explicit ScheduleScope(std::uint64_t seed);
  ~ScheduleScope();
  ScheduleScope(const ScheduleScope&) = delete;
  ScheduleScope& operator=(const ScheduleScope&) = delete;
};

// Called by threads of a kernel.

void sync();
namespace detail {
/// Waits until all lanes of the warp have come with a value; returns where these lie.
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
