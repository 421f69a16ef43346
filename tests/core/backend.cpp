#include "core/backend.h"

#include "core/allocator.h"
#include "core/cuda/visible_devices.h"
#include "core/error.h"

#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

namespace lacuna {

TEST_CASE(
    "cuda: devices below compute capability 8.0 are left out with the reason, and the others keep their numbers") {
  const cuda::UsableDevices found =
      cuda::usable_devices({{"Tesla T4", 7, 5}, {"A100", 8, 0}, {"GTX 1080", 6, 1}, {"RTX 5090", 12, 0}});
  CHECK(found.numbers == std::vector<int>{1, 3});
  REQUIRE(found.left_out.size() == 2);
  CHECK(found.left_out.front().find("Tesla T4") != std::string::npos);
  CHECK(found.left_out.front().find("7.5") != std::string::npos);
  CHECK(cuda::usable_devices({}).numbers.empty());
}

TEST_CASE("cuda: a build has code for devices of the same major architecture from its own on; PTX is compiled first") {
  CHECK(cuda::has_code("80,90-real", {"RTX 4090", 8, 9}));
  CHECK(cuda::has_code("80,90-real", {"H100", 9, 0}));
  CHECK_FALSE(cuda::has_code("80", {"H100", 9, 0}));
  CHECK_FALSE(cuda::has_code("86", {"A100", 8, 0}));
  CHECK_FALSE(cuda::has_code("120-virtual", {"RTX 5090", 12, 0}));
  CHECK(cuda::has_code("native", {"RTX 5090", 12, 0}));
}

TEST_CASE("cuda: a kernel whose code finds no memory is out of memory, other failures are not") {
  CHECK_THROWS_AS(cuda::throw_launch_failed("out of memory"), OutOfMemory);
  try {
    cuda::throw_launch_failed("invalid argument");
  } catch (const OutOfMemory&) {
    FAIL("it has memory");
  } catch (const Error&) {
  }
}

TEST_CASE("cuda: a wait asks its checks, and ends by the error of one") {
  CHECK_FALSE(waits_are_watched());
  static bool fails = false;  // as long-lived as the check
  static double asked = 0;
  watch_waits([](double seconds) {
    asked = seconds;
    if (fails) fail("a rank is gone");
  });
  CHECK(waits_are_watched());
  wait_until([] { return true; });
  CHECK(asked == 0);
  wait_until([] { return asked > 0; });
  fails = true;
  CHECK_THROWS_AS(wait_until([] { return false; }), Error);
  fails = false;  // for the tests after this one
}

TEST_CASE("cuda: kernels queued beside one device run on the own stream of another") {
  Device second = Device::cuda;
  second.index = 1;
  const Stream first_stream = stream_of(Device::cuda), second_stream = stream_of(second);
  const SideStreamScope beside(Device::cuda);
  CHECK(stream_of(Device::cuda) != first_stream);
  CHECK(stream_of(second) == second_stream);
}

}  // namespace lacuna
