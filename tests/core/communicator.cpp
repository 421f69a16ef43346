#include "core/communicator.h"

#include "core/collectives.h"
#include "core/error.h"
#include "core/launch.h"
#include "tests/thread_ranks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>

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
  CHECK_THROWS_AS(alone.broadcast(x, 1), Error);
}

TEST_CASE("communicator: sums are added in the order of the ranks, however many numbers there are") {
  // 1e8 + 1 is 1e8 in f32: another order has another sum.
  const std::vector<float> terms{1, 1e8F, -1e8F, 1};
  for (const int ranks : {2, 3, 4})
    for (const std::int64_t count : {1, 5, 5000, 100'003}) {
      CAPTURE(ranks);
      CAPTURE(count);
      float expected = terms[0];
      for (int rank = 1; rank < ranks; ++rank) expected += terms[static_cast<std::size_t>(rank)];
      test::run_ranks(ranks, [&](Communicator& communicator) {
        const Tensor x =
            Tensor::full({count}, terms[static_cast<std::size_t>(communicator.rank())], DType::f32, Device::cpu);
        communicator.all_reduce(x);
        for (const double value : x.to_vector()) REQUIRE(value == static_cast<double>(expected));
      });
    }
}

TEST_CASE("communicator: each rank gets its own part of a sum, wherever it lies") {
  const std::vector<std::vector<std::int64_t>> all{{0, 0, 7}, {2, 2, 2}, {1, 6, 1000}, {500, 501, 4001}, {0, 0, 0}};
  for (const auto& ends : all)
    test::run_ranks(3, [&](Communicator& ranks) {
      const std::int64_t count = ends.back(), rank = ranks.rank();
      const Tensor values = Tensor::empty({count}, DType::f32, Device::cpu);
      for (std::int64_t i = 0; i < count; ++i) values.data<float>()[i] = static_cast<float>(i + 10'000 * rank);
      const RankOrderSum sum(ranks, std::max<std::int64_t>(count, 1), DType::f32, DType::f32);
      sum.put(0, values);
      sum.run_to_owners(ends);
      const std::int64_t begin = rank == 0 ? 0 : ends[static_cast<std::size_t>(rank - 1)],
                         own = ends[static_cast<std::size_t>(rank)] - begin;
      const Tensor mine = values.leading(0, own);
      sum.take(begin, mine);
      for (std::int64_t i = 0; i < own; ++i)
        REQUIRE(mine.data<float>()[i] == static_cast<float>(3 * (begin + i) + 30'000));
    });
}

TEST_CASE("communicator: texts and numbers of any length") {
  test::run_ranks(3, [](Communicator& ranks) {
    const auto rank = static_cast<std::size_t>(ranks.rank());
    CHECK(broadcast_text(ranks, std::string(rank, 'x') + "y", 2) == "xxy");
    CHECK(all_gather_texts(ranks, std::string(rank, 'z')) == std::vector<std::string>{"", "z", "zz"});
    const std::vector<double> mine(rank, 0.5);
    CHECK(all_gather_numbers(ranks, mine) == std::vector<std::vector<double>>{{}, {0.5}, {0.5, 0.5}});
    CHECK(largest_of_ranks(ranks, ranks.rank()) == 2);
    expect_same_on_all_ranks(ranks, "the text", "same");
    CHECK_THROWS_AS(expect_same_on_all_ranks(ranks, "the text", rank == 1 ? "another" : "same"), Error);
  });
}

TEST_CASE("a launcher is known by its variables") {
  const auto with = [](const char* rank, const char* rank_value, const char* ranks, const char* ranks_value) {
    ::setenv(rank, rank_value, 1);
    ::setenv(ranks, ranks_value, 1);
    struct Unset {
      const char *rank, *ranks;
      ~Unset() {
        ::unsetenv(rank);
        ::unsetenv(ranks);
      }
    } const unset{rank, ranks};
    return read_launch();
  };
  CHECK(read_launch().ranks == 1);
  CHECK(with("OMPI_COMM_WORLD_RANK", "2", "OMPI_COMM_WORLD_SIZE", "4").rank == 2);
  CHECK(with("PMI_RANK", "1", "PMI_SIZE", "3").ranks == 3);
  CHECK(with("SLURM_PROCID", "0", "SLURM_STEP_NUM_TASKS", "8").launcher == "SLURM");
  CHECK(with("PMI_RANK", "0", "PMI_SIZE", "1").launcher.empty());
  CHECK_THROWS_AS(with("PMI_RANK", "x", "PMI_SIZE", "3"), Error);
  CHECK_THROWS_AS(with("PMI_RANK", "3", "PMI_SIZE", "3"), Error);
}

}  // namespace lacuna
