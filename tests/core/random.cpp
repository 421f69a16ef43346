#include "core/random.h"

#include "core/error.h"

#include <doctest/doctest.h>

#include <cmath>

namespace lacuna {
namespace {

using Words = std::array<std::uint32_t, 4>;

}  // namespace

TEST_CASE("philox gives the published known answers") {
  // Random123, tests/kat_vectors: philox4x32 10.
  CHECK(philox({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("a draw depends on seed, step, site and element only") {
  const RandomStream stream{.seed = 5, .step = 2, .site = random_site("blocks.0.drop")};
  CHECK(stream.bits(9) == stream.draw(2)[1]);
  CHECK(stream.bits(9) == RandomStream(stream).bits(9));
  CHECK(stream.bits(9) != RandomStream{6, 2, stream.site}.bits(9));
  CHECK(stream.bits(9) != RandomStream{5, 3, stream.site}.bits(9));
  CHECK(stream.bits(9) != RandomStream{5, 2, random_site("blocks.1.drop")}.bits(9));
  CHECK(stream.bits(std::uint64_t{1} << 40) != stream.bits(0));
}

TEST_CASE("draws are uniform") {
  const RandomStream stream{.seed = 1, .step = 0, .site = 0};
  constexpr int count = 100000;
  double sum = 0, squares = 0;
  int tenths[10] = {};
  for (std::uint64_t i = 0; i < count; ++i) {
    const float u = stream.uniform(i);
    REQUIRE((u >= 0 && u < 1));
    const double v = static_cast<double>(u);
    sum += v;
    squares += v * v;
    ++tenths[stream.below(i, 10)];
  }
  CHECK(std::abs(sum / count - 0.5) < 5 * std::sqrt(1.0 / 12 / count));
  CHECK(std::abs(squares / count - 1.0 / 3) < 5 * std::sqrt(4.0 / 45 / count));
  for (const int tenth : tenths) CHECK(std::abs(tenth - count / 10) < 500);
}

TEST_CASE("the stream of a path depends on the random state of the step") {
  const RandomStateScope scope({.seed = 3, .step = 8, .first_sample = 6});
  CHECK(random_stream("a.b") == RandomStream{3, 8, random_site("a.b"), 6});
}

TEST_CASE("the random state of a thread is restored at the end of a scope, also by an exception") {
  const RandomState before = random_state();
  try {
    const RandomStateScope outer({.seed = 3});
    {
      const RandomStateScope inner({.seed = 4, .step = 5});
      CHECK(random_state() == RandomState{.seed = 4, .step = 5});
    }
    CHECK(random_state() == RandomState{.seed = 3});
    fail("an error within the scope");
  } catch (const Error&) {
  }
  CHECK(random_state() == before);
}

TEST_CASE("draws of a sample depend on its number in the global batch") {
  const RandomStream whole{.seed = 3, .step = 8, .site = 5};
  RandomStream part = whole;
  part.first_sample = 6;
  CHECK(part.draw_of_sample(1, 9) == whole.draw_of_sample(7, 9));
  CHECK(part.draw_of_sample(1, 9) != whole.draw_of_sample(1, 9));
  CHECK(whole.draw_of_sample(1, 9) != whole.draw_of_sample(1, 10));
}

}  // namespace lacuna
