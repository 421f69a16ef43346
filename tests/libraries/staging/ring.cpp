// The ring of pinned buffers, over a device that reads when the test says so.
#include "core/cuda/staging.h"
#include "core/error.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <utility>
#include <vector>

namespace lacuna {
namespace {

/// Copies that were queued, and events behind them.
struct Queue {
  std::vector<std::function<void()>> copies;
  std::map<cudaEvent_t, std::size_t> behind;  // copies queued before the event
  std::size_t done = 0;

  bool reached(cudaEvent_t event) const {
    const auto found = behind.find(event);
    return found == behind.end() || found->second <= done;
  }
  void run() {
    for (; done < copies.size(); ++done) copies[done]();
  }
};
Queue& queue() {
  static auto& one = *new Queue;
  return one;
}

bool& runs_while_asked() {
  static bool runs = false;
  return runs;
}
/// Registered once: a wait runs the queue, or ends with an error.
void watch() {
  static const bool watched = [] {
    watch_waits([](double) {
      if (!runs_while_asked()) fail("rank 1 is gone");
      queue().run();
    });
    return true;
  }();
  (void)watched;
}

Stream stream_number(std::uintptr_t number) { return reinterpret_cast<Stream>(number); }

std::vector<std::byte> bytes_of(std::size_t count, unsigned value) {
  return std::vector<std::byte>(count, static_cast<std::byte>(value));
}

}  // namespace

TEST_CASE("staging: copies arrive whole, small ones share a buffer and wait for nobody") {
  watch();
  runs_while_asked() = true;
  queue() = {};
  auto& staging = *new cuda::Staging;
  constexpr std::size_t small = 100, large = std::size_t{9} << 20;
  std::vector<std::vector<std::byte>> to;
  to.reserve(401);
  for (unsigned i = 0; i < 400; ++i) {
    std::vector<std::byte> from = bytes_of(small, i % 251);
    to.push_back(bytes_of(small, 255));
    REQUIRE(staging.copy(stream_number(1 + i / 200), to.back().data(), from.data(), small) == cudaSuccess);
    from.assign(small, std::byte{254});  // the host's memory may change at once
  }
  CHECK(queue().done == 0);
  to.push_back(bytes_of(large, 255));
  REQUIRE(staging.copy(stream_number(2), to.back().data(), bytes_of(large, 7).data(), large) == cudaSuccess);
  queue().run();
  for (unsigned i = 0; i < 400; ++i) CHECK(to[i] == bytes_of(small, i % 251));
  CHECK(to.back() == bytes_of(large, 7));
}

TEST_CASE("staging: a wait for a device that does not go on ends with the reason") {
  watch();
  runs_while_asked() = false;
  queue() = {};
  auto& staging = *new cuda::Staging;
  constexpr std::size_t bytes = std::size_t{16} << 20;  // more than the ring has
  const std::vector<std::byte> from = bytes_of(bytes, 1);
  std::vector<std::byte> to = bytes_of(bytes, 2);
  CHECK(cuda::Staging::takes(1));
  CHECK_THROWS_WITH_AS(staging.copy(stream_number(1), to.data(), from.data(), bytes),
                       doctest::Contains("rank 1 is gone"), Error);
  queue().run();
  CHECK(staging.copy(stream_number(1), to.data(), from.data(), 1) == cudaSuccess);  // it is left usable
}

}  // namespace lacuna

extern "C" {

cudaError_t __wrap_cudaMallocHost(void** memory, std::size_t bytes) {
  *memory = std::malloc(bytes);
  return cudaSuccess;
}
cudaError_t __wrap_cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  static std::uintptr_t made = 0;
  *event = reinterpret_cast<cudaEvent_t>(++made);
  return cudaSuccess;
}
cudaError_t __wrap_cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  lacuna::queue().behind[event] = lacuna::queue().copies.size();
  return cudaSuccess;
}
cudaError_t __wrap_cudaEventQuery(cudaEvent_t event) {
  return lacuna::queue().reached(event) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t __wrap_cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t) {
  lacuna::queue().copies.push_back([=] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}

}  // extern "C"
