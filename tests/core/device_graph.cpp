// Work that is captured once and replayed, on the stand-in.
#include "core/device_graph.h"

#include "core/allocator.h"
#include "core/error.h"
#include "core/range_allocator.h"
#include "core/stand_in/fibers.h"
#include "core/tensor.h"

#include <doctest/doctest.h>

#include <optional>
#include <vector>

namespace lacuna {

TEST_CASE("cuda: captured work is done at each replay, with what its tensors hold then") {
  for (const std::uint64_t schedule : {0, 3}) {
    const cuda::stand_in::ScheduleScope scope(schedule);
    const Tensor x = Tensor::full({5}, 1, DType::f32, Device::cuda), y = Tensor::zeros({5}, DType::f32, Device::cuda);
    const DeviceGraph graph(Device::cuda, [&] {
      const Tensor half = x.to(DType::bf16);  // released within
      y.copy_from(half);
    });
    CHECK(y.to_vector() == std::vector<double>(5, 0));
    for (const double value : {2.0, 3.0}) {
      x.fill(value);
      graph.replay();
      CHECK(y.to_vector() == std::vector<double>(5, value));
    }
  }
}

TEST_CASE("cuda: bytes that are copied to the device in captured work are those of the capture") {
  const Tensor y = Tensor::zeros({2}, DType::f32, Device::cuda);
  std::vector<float> values{1, 2};
  const DeviceGraph graph(Device::cuda, [&] { y.copy_from(Tensor::from(std::span<const float>(values), {2})); });
  values = {3, 4};
  y.fill(0);
  graph.replay();
  CHECK(y.to_vector() == std::vector<double>{1, 2});
}

TEST_CASE("cuda: what captured work releases stays apart from other tensors while the graph lives") {
  const Tensor y = Tensor::zeros({4096}, DType::f32, Device::cuda);
  std::optional<DeviceGraph> graph;
  const std::byte* within = nullptr;
  graph.emplace(Device::cuda, [&] {
    const Tensor between = Tensor::full({4096}, 7, DType::f32, Device::cuda);
    within = between.raw();
    y.copy_from(between);
  });
  CHECK(graph->bytes() >= (std::int64_t{1} << 14));
  std::vector<Tensor> others;
  for (int i = 0; i < 100; ++i) {
    others.push_back(Tensor::full({4096}, i, DType::f32, Device::cuda));
    CHECK(others.back().raw() != within);
  }
  graph->replay();
  for (int i = 0; i < 100; ++i) CHECK(others[static_cast<std::size_t>(i)].to_vector().front() == i);
  CHECK(y.to_vector().front() == 7);
  graph.reset();
  CHECK(allocator(Device::cuda).pool_bytes() == 0);
}

TEST_CASE("cuda: work in which the host waits is not captured, and all goes on without it") {
  const Tensor x = Tensor::full({3}, 2, DType::f32, Device::cuda);
  const auto capture = [&] {
    return DeviceGraph(Device::cuda, [&] {
      x.fill(5);
      x.to_vector();
    });
  };
  CHECK_THROWS_AS(capture(), Error);
  CHECK(x.to_vector() == std::vector<double>(3, 2));
  const DeviceGraph graph(Device::cuda, [&] { x.fill(5); });
  graph.replay();
  CHECK(x.to_vector() == std::vector<double>(3, 5));
}

}  // namespace lacuna
