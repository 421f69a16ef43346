// Rows of operands in blocks, and how they are divided among threads.
#include "ops/row_blocks.h"

#include "autograd/tape.h"
#include "ops/products/linear.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace lacuna {

TEST_CASE("row partition: each part gets whole units in order, and the same rows however many are read at once") {
  constexpr std::int64_t rows = 101;
  for (const std::int64_t unit : {1, 4})
    for (const std::int64_t units : {0, 1, 2, 7})
      for (const int parts : {1, 2, 3}) {
        const RowPartition partition{.count = rows, .block = units * unit, .unit = unit, .parts = parts};
        const auto owners = [&](std::int64_t step) {
          std::vector<int> owner(rows, -1);
          for (std::int64_t first = 0; first < rows; first += step)
            for (int index = 0; index < parts; ++index) {
              std::int64_t next = first;
              partition.for_row_blocks(
                  first, std::min(rows, first + step), index, [&](std::int64_t begin, std::int64_t end) {
                    REQUIRE((next <= begin && begin < end && begin % unit == 0 && (end % unit == 0 || end == rows)));
                    next = end;
                    for (std::int64_t row = begin; row < end; ++row) {
                      REQUIRE(owner[static_cast<std::size_t>(row)] == -1);
                      owner[static_cast<std::size_t>(row)] = index;
                    }
                  });
            }
          return owner;
        };
        const std::vector<int> whole = owners(rows);
        CHECK(std::find(whole.begin(), whole.end(), -1) == whole.end());
        if (units == 0) {
          CHECK(std::is_sorted(whole.begin(), whole.end()));
          continue;
        }
        CHECK(owners(partition.rows_at_once(1)) == whole);
        CHECK(owners(partition.rows_at_once(50)) == whole);
      }
}

TEST_CASE("row partition: rows are read in whole blocks") {
  CHECK(RowPartition{.count = 100, .block = 16}.rows_at_once(50) == 48);
  CHECK(RowPartition{.count = 100, .block = 16}.rows_at_once(3) == 16);
  CHECK(RowPartition{.count = 10, .block = 16}.rows_at_once(3) == 10);
  CHECK(RowPartition{.count = 100}.rows_at_once(50) == 50);
  CHECK(RowPartition{.count = 100}.rows_at_once(1000) == 100);
}

TEST_CASE("linear: on meta the rows are not walked, however many they are") {
  constexpr std::int64_t rows = std::int64_t{1} << 40;
  const Tensor x = Tensor::empty({rows, 4}, DType::f32, Device::meta),
               weight = Tensor::empty({4, 4}, DType::f32, Device::meta);
  const std::unique_ptr<MemoryPolicy> policy = make_policy("exact");
  Tape tape(*policy);
  const Variable w(weight, true);
  const Variable y = [&] {
    const Recording recording(tape);
    return apply(Linear{}, Variable(x), w, Variable());
  }();
  tape.backward({{y, Tensor::empty(y.shape(), y.dtype(), Device::meta)}});
  CHECK(w.grad().shape() == weight.shape());
}

}  // namespace lacuna
