#include "core/communicator.h"

#include "core/error.h"

#include <doctest/doctest.h>

namespace lacuna {

TEST_CASE("communicator: one process is rank 0 of 1 and keeps its tensors") {
  Communicator& alone = single_process();
  CHECK(alone.rank() == 0);
  CHECK(alone.size() == 1);
  const Tensor x = Tensor::full({3}, 2, DType::f32, Device::cpu);
  alone.all_reduce(x);
  alone.broadcast(x, 0);
  alone.barrier();
  CHECK(x.to_vector() == std::vector<double>{2, 2, 2});
  REQUIRE(alone.gather(x, 0).size() == 1);
  CHECK(alone.gather(x, 0).front().to_vector() == x.to_vector());
  CHECK_THROWS_AS(alone.broadcast(x, 1), Error);
}

}  // namespace lacuna
