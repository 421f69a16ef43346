#include "core/tensor.h"

#include "core/parallel.h"

#include <doctest/doctest.h>

#include <cmath>
#include <utility>

namespace lacuna {
namespace {

Tensor counting(const Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(shape.count()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return Tensor::from(std::span<const float>(values), shape);
}

}  // namespace

TEST_CASE("views share memory and keep it alive") {
  Tensor tensor = counting({2, 3, 4});
  const Tensor flat = tensor.reshape({6, 4}), second = tensor.leading(1, 2), rows = tensor.row_range(2, 5);
  CHECK(second.shape() == Shape{1, 3, 4});
  CHECK(second.to_vector().front() == 12);
  CHECK(rows.shape() == Shape{3, 4});
  CHECK(rows.to_vector() == std::vector<double>{8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19});
  second.fill(-1);
  CHECK(flat.to_vector()[12] == -1);
  CHECK(flat.to_vector()[11] == 11);
  const std::uint64_t id = tensor.storage()->id();
  tensor = {};
  CHECK(flat.storage()->id() == id);
  CHECK_FALSE(tensor.defined());
}

TEST_CASE("views outside a tensor are refused") {
  const Tensor tensor = counting({2, 3});
  CHECK_THROWS_WITH_AS(tensor.reshape({7}), "[2, 3] has 6 elements and cannot be seen as [7]", Error);
  CHECK_THROWS_AS(tensor.leading(1, 3), Error);
  CHECK_THROWS_AS(tensor.leading(-1, 1), Error);
  CHECK_THROWS_AS(tensor.row_range(0, 3), Error);
  CHECK_THROWS_AS(Tensor::zeros({}, DType::f32, Device::cpu).leading(0, 1), Error);
  CHECK(tensor.leading(2, 2).count() == 0);
}

TEST_CASE("only memory with a single reference is reused") {
  Tensor tensor = counting({2, 3});
  CHECK(tensor.unique());
  CHECK(reuse_or_empty(tensor, {3, 2}, DType::f32).storage() == tensor.storage());
  CHECK(reuse_or_empty(tensor, {3, 2}, DType::bf16).storage() != tensor.storage());
  CHECK(reuse_or_empty(tensor, {4, 2}, DType::f32).storage() != tensor.storage());
  {
    const std::vector<Tensor> others{tensor};
    CHECK_FALSE(tensor.unique());
    CHECK(reuse_or_empty(tensor, {2, 3}, DType::f32).storage() != tensor.storage());
  }
  const Tensor part = std::exchange(tensor, {}).leading(0, 1);
  CHECK(part.unique());
  CHECK_FALSE(part.whole_storage());
  CHECK(reuse_or_empty(part, part.shape(), DType::f32).storage() != part.storage());
}

TEST_CASE("values convert between types") {
  const Tensor tensor = Tensor::from(std::span<const double>(std::vector<double>{1.5, -2.25, 1e-3, 300}), {4});
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const std::vector<double> values = tensor.to(dtype).to_vector();
    CHECK(values[0] == 1.5);
    CHECK(values[1] == -2.25);
    CHECK(std::abs(values[2] - 1e-3) < 1e-5);
    CHECK(values[3] == 300);
  }
  CHECK(tensor.to(DType::i32).to_vector() == std::vector<double>{1, -2, 0, 300});
  CHECK(tensor.to(DType::f64).storage() == tensor.storage());
  CHECK(tensor.clone().storage() != tensor.storage());
  CHECK_THROWS_AS(tensor.data<float>(), Error);
}

TEST_CASE("copies, fills and conversions of large tensors have the same bits with any number of threads") {
  const Shape shape{3, 70001};
  std::vector<float> values(static_cast<std::size_t>(shape.count()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
  const Tensor tensor = Tensor::from(std::span<const float>(values), shape);
  const auto results = [&](int count) {
    const ThreadCountScope scope(count);
    Tensor copy = Tensor::zeros(shape, DType::f64, Device::cpu), part = tensor.clone();
    copy.copy_from(tensor);
    part.leading(1, 2).fill(2.5);
    std::vector<std::vector<double>> all;
    for (const Tensor& each :
         {tensor.clone(), tensor.to(DType::bf16), tensor.to(DType::i32), copy, part,
          Tensor::zeros(shape, DType::f32, Device::cpu), Tensor::full(shape, -0.0, DType::bf16, Device::cpu)})
      all.push_back(each.to_vector());
    return all;
  };
  const std::vector<std::vector<double>> one = results(1);
  CHECK(results(2) == one);
  CHECK(results(3) == one);
  CHECK(one[0] == std::vector<double>(values.begin(), values.end()));
  CHECK(one[3] == one[0]);
  CHECK(one[4].back() == one[0].back());
  CHECK(one[4][70001] == 2.5);
  CHECK(one[5] == std::vector<double>(values.size(), 0));
  CHECK(std::signbit(one[6].back()));
}

TEST_CASE("an undefined tensor is an error, not a crash") {
  Tensor tensor = counting({2, 3});
  const Tensor kept = std::move(tensor);
  const Tensor never;
  for (const Tensor& undefined : {tensor, never}) {  // NOLINT(bugprone-use-after-move)
    CHECK_FALSE(undefined.defined());
    CHECK_THROWS_AS(static_cast<void>(undefined.device()), Error);
    CHECK_THROWS_AS(static_cast<void>(undefined.raw()), Error);
    CHECK_THROWS_AS(static_cast<void>(undefined.data<float>()), Error);
    CHECK_THROWS_AS(static_cast<void>(undefined.clone()), Error);
    CHECK_THROWS_AS(static_cast<void>(undefined.to(DType::f64)), Error);
    CHECK_THROWS_AS(static_cast<void>(undefined.to_vector()), Error);
    CHECK_THROWS_AS(static_cast<void>(undefined.whole_storage()), Error);
    CHECK_THROWS_AS(undefined.fill(1), Error);
    CHECK_THROWS_AS(undefined.set_purpose(Purpose::data), Error);
    CHECK_THROWS_AS(undefined.bump_version(), Error);
    CHECK_THROWS_AS(undefined.copy_from(kept), Error);
    CHECK_THROWS_AS(kept.copy_from(undefined), Error);
    CHECK_THROWS_AS(static_cast<void>(empty_like(undefined)), Error);
  }
}

TEST_CASE("writes in place raise the version") {
  const Tensor tensor = counting({2, 3});
  const std::uint64_t version = tensor.storage()->version();
  tensor.fill(1);
  CHECK(tensor.storage()->version() > version);
  const std::uint64_t filled = tensor.storage()->version();
  tensor.leading(0, 1).copy_from(counting({3}));
  CHECK(tensor.storage()->version() > filled);
}

TEST_CASE("item reads a tensor of one element only") {
  CHECK(Tensor::full({}, 2.5, DType::bf16, Device::cpu).item() == 2.5);
  CHECK_THROWS_AS(counting({2}).item(), Error);
}

TEST_CASE("wrong numbers of values are refused") {
  CHECK_THROWS_WITH_AS(Tensor::from(std::span<const float>(std::vector<float>(5)), {2, 3}),
                       "5 values do not fill [2, 3]", Error);
  CHECK_THROWS_AS(counting({2, 3}).copy_from(counting({5})), Error);
}

TEST_CASE("tensors on meta have no memory and no values") {
  const Tensor tensor = Tensor::zeros({1 << 20, 1 << 10, 1 << 10}, DType::f32, Device::meta);
  CHECK(tensor.raw() == nullptr);
  CHECK(tensor.leading(5, 7).raw() == nullptr);
  CHECK(tensor.bytes() == std::int64_t{1} << 42);
  CHECK_THROWS_AS(tensor.to_vector(), Error);
  CHECK(tensor.clone().shape() == tensor.shape());
}

TEST_CASE("a tensor may have no elements") {
  const Tensor tensor = Tensor::zeros({3, 0}, DType::f32, Device::cpu);
  CHECK(tensor.defined());
  CHECK(tensor.to_vector().empty());
  CHECK(tensor.clone().count() == 0);
}

}  // namespace lacuna
