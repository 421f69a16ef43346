// Runs whose NCCL fails or hangs end with the reason.
#include "core/allocator.h"
#include "core/communicator.h"
#include "core/error.h"
#include "tests/libraries/backend_of_test.h"
#include "tests/libraries/nccl/library.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace lacuna {
namespace {

test::BackendOfTest& device() {
  static auto& one = *new test::BackendOfTest;
  return one;
}
const RegisterBackend registered{device()};

constexpr int remote_error = 6;  // ncclRemoteError

/// Rank 0 of two, alone: what it sends goes nowhere.
class Host final : public Communicator {
 public:
  explicit Host(double timeout, bool alone = false) : timeout_(timeout), alone_(alone) {}
  int rank() const override { return 0; }
  int size() const override { return 2; }
  double timeout() const override { return timeout_; }
  void broadcast(std::span<std::byte>, int) override {}
  void all_gather(std::span<const std::byte>, std::span<std::byte>) override {}
  void all_to_all(std::span<const std::byte>, std::span<const Section>, std::span<std::byte>,
                  std::span<const Section>) override {}
  void barrier() override {
    if (alone_) fail("rank 1 does not come");
  }
  std::unique_ptr<Communicator> duplicate() override { return std::make_unique<Host>(timeout_, alone_); }
  void abort(int code) override { std::_Exit(code); }

 private:
  double timeout_;
  bool alone_;
};

/// NCCL's state, with the test's library in the place of the real one.
test::NcclState& nccl() {
  static test::NcclState* const state = [] {
    void* const library = dlopen(LACUNA_TEST_NCCL, RTLD_NOW | RTLD_GLOBAL);  // the first of that name is opened
    REQUIRE(library != nullptr);
    return reinterpret_cast<test::NcclState* (*)()>(dlsym(library, "nccl_state_of_test"))();
  }();
  device().is_done = true;
  *state = {};
  return *state;
}

Device gpu(int index) {
  Device device = Device::cuda;
  device.index = static_cast<std::uint8_t>(index);
  return device;
}

}  // namespace

TEST_CASE("nccl: the GPUs are joined once; a rank that fails leaves them without waiting") {
  test::NcclState& state = nccl();
  Host host(60);
  {
    const std::unique_ptr<Communicator> ranks = device_ranks(gpu(0), host), again = device_ranks(gpu(0), host);
    const std::unique_ptr<Communicator> channel = ranks->duplicate();
    CHECK(state.joined == 1);
  }
  CHECK(state.destroyed == 0);  // it waits for the other ranks of the machine
  CHECK(state.open_groups == 0);
}

TEST_CASE("nccl: an error of a GPU or a link ends the wait with its reason") {
  test::NcclState& state = nccl();
  Host host(60);
  const std::unique_ptr<Communicator> ranks = device_ranks(gpu(1), host);
  device().is_done = false;
  state.async_error = remote_error;
  CHECK_THROWS_WITH_AS(ranks->barrier(), doctest::Contains("the link to rank 1 is down"), Error);
  CHECK(state.aborted > 0);  // its kernels would wait for ever
  device().is_done = true;
  ranks->barrier();  // the end of a run asks no communicator that is gone
}

TEST_CASE("nccl: work that waits longer than --rank-timeout ends the run") {
  test::NcclState& state = nccl();
  Host host(0.05);
  const std::unique_ptr<Communicator> ranks = device_ranks(gpu(2), host);
  device().is_done = false;
  CHECK_THROWS_AS(ranks->barrier(), Error);
  CHECK(state.aborted == 1);
}

TEST_CASE("nccl: a group of sends of which one fails is ended") {
  test::NcclState& state = nccl();
  Host host(60);
  const std::unique_ptr<Communicator> ranks = device_ranks(gpu(3), host);
  state.send_error = remote_error;
  std::array<std::byte, 16> send{}, receive{};
  CHECK_THROWS_AS(ranks->all_to_all(send, receive), Error);
  CHECK(state.open_groups == 0);
}

TEST_CASE("nccl: a rank that does not come is missed before NCCL waits for it") {
  test::NcclState& state = nccl();
  Host host(60, true);
  CHECK_THROWS_WITH_AS(device_ranks(gpu(4), host), doctest::Contains("rank 1 does not come"), Error);
  CHECK(state.joined == 0);
}

}  // namespace lacuna

extern "C" {

cudaError_t __wrap_cudaMalloc(void** memory, std::size_t bytes) {
  *memory = std::malloc(bytes);
  return cudaSuccess;
}
cudaError_t __wrap_cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}

}  // extern "C"
