// Sets of inputs.
#include "core/op.h"

#include <doctest/doctest.h>

#include <type_traits>

namespace lacuna {
namespace {

template <int i>
concept constant_input = requires {
  typename std::integral_constant<int, InputSet{i}.size()>;
};
template <int i>
concept constant_source = requires {
  typename std::integral_constant<int, input(i).index>;
};

static_assert(constant_input<0> && constant_input<31> && constant_source<0> && constant_source<31>);
static_assert(!constant_input<32> && !constant_input<-1> && !constant_source<32> && !constant_source<-1>);

}  // namespace

TEST_CASE("input set: contains what was inserted") {
  InputSet set{0, 31};
  set.insert(7);
  for (int i = 0; i < max_inputs; ++i) CHECK(set.contains(i) == (i == 0 || i == 7 || i == 31));
  CHECK(set.size() == 3);
  CHECK((set & InputSet{7, 8}).size() == 1);
  CHECK(set.intersects({31}));
  CHECK(!set.intersects({8, 30}));
}

TEST_CASE("input set: a number that no input has is an error") {
  for (const int i : {-1, 32, 33, 1000}) {
    CAPTURE(i);
    InputSet set;
    CHECK_THROWS_AS(set.insert(i), Error);
    CHECK_THROWS_AS((void)set.contains(i), Error);
    CHECK_THROWS_AS((void)InputSet{i}, Error);
    CHECK_THROWS_AS((void)input(i), Error);
    CHECK_THROWS_AS((void)extra_output(i), Error);
    CHECK(set.empty());
  }
}

}  // namespace lacuna
