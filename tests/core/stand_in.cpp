// The stand-in shows what is wrong in kernels that are wrong on purpose.
#include "core/stand_in/fibers.h"

#include "core/backend.h"
#include "core/block.h"
#include "core/tensor.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <stdexcept>
#include <vector>

namespace lacuna {
namespace {

/// Each thread reads what its neighbour wrote to shared memory.
template <bool waits>
struct Neighbours {
  static constexpr int threads = 64;
  struct Shared {
    float values[threads];
  };
  float* out;
  void operator()(const cuda::Block<Neighbours>& block) const {
    const int t = block.thread();
    block.shared().values[t] = static_cast<float>(t);
    if (waits) block.sync();
    out[block.global_thread()] = block.shared().values[(t + 1) % threads];
  }
};

/// A barrier that half of the threads leave out.
struct HalfABarrier {
  static constexpr int threads = 64;
  void operator()(const cuda::Block<HalfABarrier>& block) const {
    if (block.thread() < 32) block.sync();
  }
};

struct SumOfWarp {
  static constexpr int threads = 64;
  float* out;
  void operator()(const cuda::Block<SumOfWarp>& block) const {
    const float sum = cuda::sum_of_lanes(static_cast<float>(block.thread()));
    const float of_third = cuda::of_lane(static_cast<float>(block.thread()), 3);
    out[block.thread()] = sum + 1000 * of_third;
  }
};

struct ReadsShared {
  static constexpr int threads = 32;
  struct Shared {
    float value;
  };
  float* out;
  void operator()(const cuda::Block<ReadsShared>& block) const { out[block.thread()] = block.shared().value; }
};

struct Unaligned {
  static constexpr int threads = 32;
  const float* from;
  void operator()(const cuda::Block<Unaligned>&) const { cuda::load_pack<4>(from + 1); }
};

/// Runs `f` with a schedule.
template <class F>
void with_schedule(std::uint64_t seed, const F& f) {
  const cuda::stand_in::ScheduleScope schedule(seed);
  f();
  backend(Device::cuda).synchronize(stream_of(Device::cuda));
}

template <bool waits>
std::set<std::vector<float>> results_of_neighbours() {
  std::set<std::vector<float>> all;
  for (const std::uint64_t seed : {0, 1, 2, 4}) {
    std::vector<float> out(128);
    with_schedule(seed, [&] { cuda::run(stream_of(Device::cuda), 2, Neighbours<waits>{out.data()}); });
    for (float& value : out)
      if (std::isnan(value)) value = -1;
    all.insert(out);
  }
  return all;
}

}  // namespace

TEST_CASE("stand-in: a kernel with its barriers gives one result in every order") {
  CHECK(results_of_neighbours<true>().size() == 1);
  CHECK(results_of_neighbours<false>().size() > 1);
}

TEST_CASE("stand-in: a barrier that some threads leave out is an error") {
  const Stream stream = stream_of(Device::cuda);
  CHECK_THROWS_AS(cuda::run(stream, 1, HalfABarrier{}), std::logic_error);
  CHECK_THROWS_AS(cuda::run(stream, 1, HalfABarrier{}), std::logic_error);  // and the next launch is none the worse
}

TEST_CASE("stand-in: exchanges within a warp") {
  std::vector<float> out(64);
  with_schedule(2, [&] { cuda::run(stream_of(Device::cuda), 1, SumOfWarp{out.data()}); });
  CHECK(out[0] == 31 * 16 + 3000);
  CHECK(out[63] == 95 * 16 + 35000);
}

TEST_CASE("stand-in: shared memory holds NaN at first") {
  std::vector<float> out(32);
  cuda::run(stream_of(Device::cuda), 1, ReadsShared{out.data()});
  CHECK(std::isnan(out[0]));
}

TEST_CASE("stand-in: a pack that is not aligned is an error") {
  alignas(16) const float values[8] = {};
  CHECK_THROWS_AS(cuda::run(stream_of(Device::cuda), 1, Unaligned{values}), std::logic_error);
}

TEST_CASE("stand-in: a late stream has done nothing until the host waits") {
  const Tensor tensor = Tensor::zeros({4}, DType::f32, Device::cuda);
  with_schedule(3, [&] {
    tensor.fill(7);
    const KernelScope scope;
    CHECK(tensor.data<float>()[0] != 7);
    CHECK(tensor.to_vector() == std::vector<double>{7, 7, 7, 7});
  });
}

}  // namespace lacuna
