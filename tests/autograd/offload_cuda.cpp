// Saved tensors of a GPU in the host's memory, on the stand-in.
#include "autograd/host_store.h"
#include "core/stand_in/fibers.h"
#include "tests/autograd/offload.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lacuna {
namespace {

constexpr std::int64_t buffer = 40'000;  // of layers whose tensors have 262,144 bytes, in 4 bits 34,816

std::shared_ptr<HostStore> store_on(Device device) {
  return std::make_shared<HostStore>(HostStoreOptions{.buffer = buffer, .device = device});
}

}  // namespace

TEST_CASE("cuda: the host's memory gives tensors back, in any order") {
  for (const std::uint64_t schedule : {0U, 3U}) {
    std::optional<cuda::stand_in::ScheduleScope> late;
    if (schedule > 0) late.emplace(schedule);
    HostStore store({.buffer = 50'000, .device = Device::cuda});
    for (int step = 0; step < 3; ++step) {
      std::vector<std::vector<double>> expected;
      std::vector<OffloadStore::Id> ids;
      for (std::uint32_t i = 0; i < 7; ++i) {
        const Tensor tensor = test_values({1 + 4999 * static_cast<std::int64_t>(i)}, 10 * step + i, DType::f32);
        expected.push_back(tensor.to_vector());
        ids.push_back(store.put(tensor.to(Device::cuda)).value());
      }
      store.drop(ids[3]);
      for (const std::size_t i : {6U, 2U, 0U, 5U, 1U, 4U}) {
        CAPTURE(i);
        for (const bool again : {true, false}) CHECK(store.get(ids[i], again).to_vector() == expected[i]);
        store.drop(ids[i]);
      }
      CHECK(store.bytes() == 0);
      CHECK(at(ledger(Device::cuda).live(), Purpose::saved) == 0);
    }
  }
}

TEST_CASE("cuda: the host's memory for saved tensors ends at its budget, which is told once") {
  int told = 0;
  for (const Device device : {Device::cuda, Device::meta}) {
    HostStore store({.budget = 3 * 8192, .device = device, .warn = [&](const std::string&) { ++told; }});
    const Tensor tensor = Tensor::empty({2048}, DType::f32, device);
    for (int i = 0; i < 3; ++i) CHECK(store.put(tensor));
    for (int i = 0; i < 3; ++i) CHECK_FALSE(store.put(tensor));
  }
  CHECK(told == 2);
}

TEST_CASE("cuda: gradients of tensors that were in the host's memory have the same bits, once and twice") {
  for (const char* const name : {"keep", "exact", "fixed", "mesa"})
    for (const int passes : {1, 2}) {
      CAPTURE(name);
      const auto of = [&](const std::shared_ptr<HostStore>& store) {
        return gradients_of_layers(name, store, passes, {}, Device::cuda, buffer);
      };
      const auto plain = of(nullptr);
      const auto store = store_on(Device::cuda);
      CHECK(of(store) == plain);
      CHECK(of(store) == plain);
      const cuda::stand_in::ScheduleScope late(3);
      CHECK(of(store_on(Device::cuda)) == plain);
    }
}

TEST_CASE("cuda: with tensors in the host's memory a step on meta takes the bytes of one on the device") {
  const auto most = [](Device device) { return peak_of_layers(device, store_on(device)); };
  CHECK(most(Device::meta) == most(Device::cuda));
}

}  // namespace lacuna
