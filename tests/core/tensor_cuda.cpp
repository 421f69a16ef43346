// Tensors on cuda devices, on the stand-in.
#include "core/allocator.h"
#include "core/backend.h"
#include "core/sanitizer.h"
#include "core/stand_in/fibers.h"
#include "core/tensor.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace lacuna {
namespace {

constexpr Device second{DeviceKind::cuda, 1};
const std::vector<float> numbers{1.5F, -2, 0, 3.25F, 1e-3F, 300};

}  // namespace

TEST_CASE("cuda: values go to the device and come back, at once or late") {
  const auto check = [] {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i64, DType::i32, DType::u8}) {
      CAPTURE(name_of(dtype));
      const Tensor on_host = Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3}, dtype);
      const Tensor there = on_host.to(Device::cuda);
      CHECK(there.device() == Device::cuda);
      CHECK(there.dtype() == dtype);
      CHECK(there.shape() == on_host.shape());
      CHECK(there.to_vector() == on_host.to_vector());
      CHECK(there.clone().to(Device::cpu).to_vector() == on_host.to_vector());
      CHECK(there.to(second).to_vector() == on_host.to_vector());
      CHECK(Tensor::from(std::vector<float>{4}, {}, dtype, Device::cuda).item() == 4);
      CHECK(there.leading(1, 2).to_vector() == std::vector<double>{4, 5, 6});
    }
  };
  check();
  const cuda::stand_in::ScheduleScope late(3);
  check();
}

TEST_CASE("cuda: fills and conversions are those of the CPU") {
  for (const double value : {0.0, -0.0, 2.0, 200.0}) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i64, DType::i32, DType::u8}) {
      if (std::signbit(value) && !is_floating(dtype)) continue;
      const Tensor here = Tensor::full({777}, value, dtype, Device::cpu),
                   there = Tensor::full({777}, value, dtype, Device::cuda);
      CHECK(there.to_vector() == here.to_vector());
      CHECK(std::signbit(there.to_vector()[5]) == std::signbit(here.to_vector()[5]));
    }
  }
  for (const DType from : {DType::f32, DType::bf16, DType::f16, DType::u8, DType::i32, DType::i64}) {
    std::vector<float> values = numbers;
    if (!is_floating(from)) values = {0, 1, 2, 100, 200, 255};
    const Tensor here = Tensor::from(values, {6}, from), there = here.to(Device::cuda);
    for (const DType to : {DType::f32, DType::bf16, DType::f16}) {
      CAPTURE(name_of(from));
      CAPTURE(name_of(to));
      CHECK(there.to(to).to_vector() == here.to(to).to_vector());
    }
  }
}

TEST_CASE("cuda: copies between devices convert, and raise the version") {
  const Tensor here = Tensor::from(numbers, {6}), there = Tensor::zeros({6}, DType::bf16, Device::cuda);
  const std::uint64_t version = there.storage()->version();
  there.copy_from(here);
  CHECK(there.storage()->version() > version);
  CHECK(there.to_vector() == here.to(DType::bf16).to_vector());
  const Tensor back = Tensor::zeros({6}, DType::f32, Device::cpu);
  back.copy_from(there);
  CHECK(back.to_vector() == there.to_vector());
  CHECK_THROWS_AS(there.copy_from(Tensor::zeros({5}, DType::f32, Device::cpu)), Error);
  CHECK_THROWS_AS(Tensor::empty({6}, DType::f32, Device::meta).to(Device::cuda), Error);
}

TEST_CASE("cuda: each device has a ledger of its own") {
  const std::int64_t on_cpu = ledger(Device::cpu).total(), on_first = ledger(Device::cuda).total(),
                     on_second = ledger(second).total();
  const Tensor tensor = Tensor::empty({1000}, DType::f32, second);
  CHECK(ledger(second).total() == on_second + 4000);
  CHECK(ledger(Device::cuda).total() == on_first);
  CHECK(ledger(Device::cpu).total() == on_cpu);
}

TEST_CASE("cuda: a device that does not exist is an error") {
  CHECK_THROWS_AS(Tensor::empty({1}, DType::f32, {DeviceKind::cuda, 7}), Error);
  CHECK(name_of(second) == "cuda:1");
  CHECK(backend(second).device_count() == 2);
}

TEST_CASE("cuda: more memory than the device has is an error that names it, and leaves it as it was") {
  const std::int64_t held = ledger(Device::cuda).total();
  CHECK_THROWS_AS(Tensor::empty({allocator(Device::cuda).capacity() + 1}, DType::u8, Device::cuda), OutOfMemory);
  CHECK(ledger(Device::cuda).total() == held);
}

#ifndef LACUNA_ADDRESS_SANITIZER
TEST_CASE("cuda: memory that was given back is used again") {
  const Tensor first = Tensor::full({std::int64_t{16} << 20}, 1, DType::u8, Device::cuda);
  const std::byte* const place = first.raw();
  { const Tensor second_one = Tensor::full({std::int64_t{16} << 20}, 2, DType::u8, Device::cuda); }
  allocator(Device::cuda).trim();
  const Tensor again = Tensor::full({std::int64_t{16} << 20}, 3, DType::u8, Device::cuda);
  CHECK(again.to(DType::f32).to_vector()[12345] == 3);
  CHECK(first.raw() == place);
  CHECK(first.to_vector()[54321] == 1);
}

TEST_CASE("cuda: new memory on the stand-in holds NaN") {
  CHECK(std::isnan(Tensor::empty({3}, DType::f32, Device::cuda).to_vector()[1]));
}
#endif

}  // namespace lacuna
