#include "core/parallel.h"

#include "core/openmp.h"

#include <doctest/doctest.h>
#include <omp.h>

#include <mutex>
#include <thread>
#include <vector>

namespace lacuna {

TEST_CASE("parts cover a range once, in order, in whole units") {
  for (const std::int64_t n : {0, 1, 63, 64, 65, 1000})
    for (const std::int64_t parts : {1, 2, 3, 7})
      for (const std::int64_t unit : {1, 8, 64}) {
        std::int64_t next = 0, smallest = n, most = 0;
        for (std::int64_t i = 0; i < parts; ++i) {
          const Range range = part(n, i, parts, unit);
          REQUIRE(range.begin == next);
          REQUIRE((range.begin % unit == 0 || range.begin == n));
          REQUIRE(range.end >= range.begin);
          next = range.end;
          smallest = std::min(smallest, range.end - range.begin);
          most = std::max(most, range.end - range.begin);
        }
        REQUIRE(next == n);
        REQUIRE(most - smallest <= 2 * unit);
      }
}

TEST_CASE("parallel_for visits each index once with any number of threads") {
  for (const int count : {1, 2, 5}) {
    const ThreadCountScope scope(count);
    CHECK(threads() == count);
    for (const std::int64_t n : {0, 3, 100, 10007}) {
      std::vector<int> visits(static_cast<std::size_t>(n));
      parallel_for(
          n, 50,
          [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
          },
          16);
      CHECK(visits == std::vector<int>(static_cast<std::size_t>(n), 1));
    }
  }
}

TEST_CASE("a task runs on the same thread each time") {
  const ThreadCountScope scope(3);
  const auto assignment = [] {
    std::vector<int> thread_of(20, -1);
    parallel_tasks(20, [&](std::int64_t task, int thread) { thread_of[static_cast<std::size_t>(task)] = thread; });
    return thread_of;
  };
  const std::vector<int> first = assignment();
  CHECK(std::is_sorted(first.begin(), first.end()));
  CHECK(first.front() == 0);
  CHECK(first.back() == 2);
  for (int i = 0; i < 10; ++i) CHECK(assignment() == first);
}

TEST_CASE("nested parallel loops run on one thread") {
  const ThreadCountScope scope(3);
  std::vector<int> found(3), inner(3);
  parallel_tasks(3, [&](std::int64_t task, int thread) {
    const auto at = static_cast<std::size_t>(thread);
    found[at] = threads();
    parallel_tasks(5, [&](std::int64_t, int within) { inner[at] += 1 + 100 * within; });
    parallel_for(1000, 10, [&](std::int64_t begin, std::int64_t end) { inner[at] += begin == 0 && end == 1000; });
    CHECK(task == thread);
  });
  CHECK(found == std::vector<int>{1, 1, 1});
  CHECK(inner == std::vector<int>{6, 6, 6});
  CHECK(threads() == 3);
}

TEST_CASE("an exception on a thread reaches the caller") {
  for (const int count : {1, 3}) {
    const ThreadCountScope scope(count);
    std::vector<int> visits(9);
    const auto throwing = [&](std::int64_t task, int) {
      ++visits[static_cast<std::size_t>(task)];
      expect(task != 4, "task {} fails", task);
    };
    CHECK_THROWS_WITH_AS(parallel_tasks(9, throwing), doctest::Contains("task 4 fails"), Error);
    CHECK(visits ==
          (count == 1 ? std::vector<int>{1, 1, 1, 1, 1, 0, 0, 0, 0} : std::vector<int>{1, 1, 1, 1, 1, 0, 1, 1, 1}));
    const auto all_throw = [](std::int64_t task, int) { fail("task {} fails", task); };
    CHECK_THROWS_WITH_AS(parallel_tasks(9, all_throw), doctest::Contains("task 0 fails"), Error);
    CHECK_THROWS_AS(parallel_for(100, 1, [](std::int64_t, std::int64_t) { fail("no"); }), Error);
  }
}

TEST_CASE("work below the threshold runs as one range") {
  const ThreadCountScope scope(4);
  std::vector<Range> ranges;
  parallel_for(99, 100, [&](std::int64_t begin, std::int64_t end) { ranges.push_back({begin, end}); });
  REQUIRE(ranges.size() == 1);
  CHECK(ranges[0].end == 99);
}

TEST_CASE("map converts to the compute type and back") {
  std::vector<bf16> x(1000), y(1000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = bf16(static_cast<float>(i) * 0.25F);
  map(
      1000, [](float a, float b) { return a + b; }, y.data(), x.data(), x.data());
  for (std::size_t i = 0; i < x.size(); ++i) REQUIRE(static_cast<float>(y[i]) == 2 * static_cast<float>(x[i]));
}

TEST_CASE("the number of threads is restored at the end of a scope") {
  const int before = threads();
  {
    const ThreadCountScope outer(3);
    CHECK(threads() == 3);
    {
      const ThreadCountScope inner(1);
      CHECK(threads() == 1);
    }
    CHECK(threads() == 3);
  }
  CHECK(threads() == before);
}

TEST_CASE("impossible numbers of threads are refused") {
  CHECK_THROWS_AS(set_threads(-1), Error);
  CHECK_THROWS_AS(set_threads(max_threads + 1), Error);
}

TEST_CASE("a thread whose OpenMP settings differ computes with whole teams") {
  const ThreadCountScope scope(3);
  std::jthread([] {
    omp_set_dynamic(1);
    omp_set_max_active_levels(0);
    omp_set_num_threads(1);
    CHECK(threads() == 3);
    CHECK(omp_get_dynamic() == 0);
    CHECK(omp_get_max_threads() == 3);
    std::vector<int> team(3);
    parallel_tasks(3, [&](std::int64_t task, int) {
      team[static_cast<std::size_t>(task)] = omp_get_num_threads();
      if (threads() != 1 || omp_get_max_threads() != 1) team[static_cast<std::size_t>(task)] = 0;
    });
    CHECK(team == std::vector<int>{3, 3, 3});
  });
}

}  // namespace lacuna
