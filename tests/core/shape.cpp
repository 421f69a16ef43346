#include "core/shape.h"

#include <doctest/doctest.h>

#include <vector>

namespace lacuna {

TEST_CASE("a shape counts its elements and rows") {
  const Shape tokens{16, 197, 192};
  CHECK(tokens.rank() == 3);
  CHECK(tokens.count() == 16 * 197 * 192);
  CHECK(tokens.rows() == 16 * 197);
  CHECK(tokens.front() == 16);
  CHECK(tokens.back() == 192);
  CHECK(tokens.with_back(5) == Shape{16, 197, 5});
  CHECK(to_string(tokens) == "[16, 197, 192]");
  CHECK(fmt::format("{}", tokens) == "[16, 197, 192]");
}

TEST_CASE("a scalar has one element and one row, an empty shape none") {
  const Shape scalar;
  CHECK(scalar.count() == 1);
  CHECK(scalar.rows() == 1);
  CHECK(to_string(scalar) == "[]");
  CHECK_THROWS_AS(scalar.with_back(2), Error);
  CHECK(Shape{3, 0}.count() == 0);
  CHECK(Shape{3, 0}.rows() == 0);
}

TEST_CASE("shapes compare by their extents") {
  CHECK(Shape{2, 3} == Shape{2, 3});
  CHECK_FALSE(Shape{2, 3} == Shape{3, 2});
  CHECK_FALSE(Shape{2, 3} == Shape{2, 3, 1});
}

TEST_CASE("impossible shapes are refused") {
  CHECK_THROWS_AS(Shape({2, -1}), Error);
  const std::vector<std::int64_t> many(Shape::max_rank + 1, 1);
  CHECK_THROWS_AS(Shape(std::span<const std::int64_t>(many)), Error);
  constexpr std::int64_t large = std::int64_t{1} << 32;
  CHECK(Shape({large, large / 4}).count() == std::int64_t{1} << 62);
  CHECK_THROWS_AS(Shape({large, large}), Error);
  CHECK_THROWS_AS(Shape({0, large, large}), Error);
  CHECK_THROWS_AS(Shape({large, 2}).with_back(large), Error);
}

}  // namespace lacuna
