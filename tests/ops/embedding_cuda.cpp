#include "core/stand_in/fibers.h"
#include "core/tensor.h"
#include "ops/shapes/embedding.h"
#include "tests/ops/op_sample.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <vector>

namespace lacuna {
namespace {

constexpr std::int64_t rows = 300, width = 20, padding = 1;

/// The gradient of a table by `rows` rows, most of which have the id 0.
std::vector<double> gradient(std::int64_t entries, Device device) {
  std::vector<std::int64_t> ids(rows, 0);
  for (std::size_t i = 0; i < ids.size(); i += 7) ids[i] = static_cast<std::int64_t>(i) % entries;
  const Tensor table = Tensor::full({entries, width}, 0.5, DType::f32, device);
  embedding_backward(device, sample_values({1, rows, width}, DType::f32, 5).to(device),
                     Tensor::from(std::span<const std::int64_t>(ids), {rows}, device), padding, table, {rows, table});
  return table.to_vector();
}

}  // namespace

TEST_CASE("cuda: an id of many rows adds them in order, with the CPU's bits, in any order of blocks") {
  const std::vector<double> by_cpu = gradient(40, Device::cpu);
  CHECK(gradient(40, Device::cuda) == by_cpu);
  for (const std::uint64_t order : {1, 2, 3}) {
    const cuda::stand_in::ScheduleScope schedule(order);
    CHECK(gradient(40, Device::cuda) == by_cpu);
  }
}

TEST_CASE("cuda: a table of few entries is summed by parts, alike in any order of blocks") {
  const std::vector<double> sums = gradient(5, Device::cuda), by_cpu = gradient(5, Device::cpu);
  REQUIRE(sums.size() == by_cpu.size());
  for (std::size_t i = 0; i < sums.size(); ++i) CHECK(sums[i] == doctest::Approx(by_cpu[i]).epsilon(1e-5));
  for (const std::uint64_t order : {1, 2, 3}) {
    const cuda::stand_in::ScheduleScope schedule(order);
    CHECK(gradient(5, Device::cuda) == sums);
  }
}

}  // namespace lacuna
