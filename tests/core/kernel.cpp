#include "core/kernel.h"

#include "core/error.h"

#include "tests/refusal.h"

#include <doctest/doctest.h>

#include <string>

namespace lacuna {
namespace {

constinit Kernel<void(int x, int& y)> twice{"twice"};
constinit Kernel<void(int& y)> nowhere{"nowhere"};
const RegisterKernel cpu_twice{twice, DeviceKind::cpu, [](int x, int& y) { y = 2 * x; }};

template <class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("a kernel runs on the device it was registered for") {
  int y = 0;
  twice(Device::cpu, 21, y);
  CHECK(y == 42);
}

TEST_CASE("a kernel does nothing on meta") {
  int y = 7;
  twice(Device::meta, 21, y);
  nowhere(Device::meta, y);
  CHECK(y == 7);
}

TEST_CASE("a kernel that is registered for meta too runs there") {
  static constinit Kernel<void(int& y)> counts{"counts"};
  static const RegisterKernel everywhere{counts, {DeviceKind::cpu, DeviceKind::meta}, [](int& y) { ++y; }};
  int y = 0;
  counts(Device::cpu, y);
  counts(Device::meta, y);
  CHECK(y == 2);
}

TEST_CASE("a device without the kernel is an error that names both") {
  int y = 7;
  const std::string message = message_of([&] { nowhere(Device::cpu, y); });
  test::check_says(message, "nowhere");
  test::check_says(message, name_of(Device::cpu));
  CHECK(y == 7);
}

TEST_CASE("two kernels for one device are refused") {
  CHECK_THROWS_AS(twice.add(DeviceKind::cpu, [](int, int&) {}), Error);
  int y = 0;
  twice(Device::cpu, 4, y);
  CHECK(y == 8);
}

TEST_CASE("devices compare by kind and index") {
  CHECK(Device{} == Device::cpu);
  CHECK(Device::cpu != Device::meta);
  CHECK(Device{DeviceKind::cpu, 1} != Device::cpu);
  CHECK(name_of(Device::cpu) == "cpu");
  CHECK(name_of(Device::meta) == "meta");
}

}  // namespace lacuna
