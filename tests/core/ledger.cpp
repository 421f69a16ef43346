#include "core/ledger.h"

#include "core/tensor.h"

#include "tests/refusal.h"

#include <doctest/doctest.h>

#include <array>
#include <map>
#include <random>
#include <thread>

namespace lacuna {
namespace {

const Owner saved{Purpose::saved, Label("linear"), Label("blocks.0")};
const Owner transient{Purpose::transient, Label("gelu"), Label("blocks.1")};

}  // namespace

TEST_CASE("a ledger counts by purpose and remembers its peaks") {
  Ledger account;
  account.add(saved, 100);
  account.add(transient, 50);
  account.remove(transient, 50);
  account.add(saved, 20);
  CHECK(account.total() == 120);
  CHECK(account.peak() == 150);
  CHECK(at(account.live(), Purpose::saved) == 120);
  CHECK(at(account.live(), Purpose::transient) == 0);
  CHECK(at(account.highest(), Purpose::saved) == 120);
  CHECK(at(account.highest(), Purpose::transient) == 50);
  account.reset_peak();
  CHECK(account.peak() == 120);
  CHECK(at(account.highest(), Purpose::transient) == 0);
}

TEST_CASE("a ledger lists the holders at the peak") {
  Ledger account;
  account.add(transient, 30);
  account.add(saved, 100);
  account.remove(saved, 60);
  account.add(transient, 10);
  const std::vector<Held> now = account.holders(), then = account.holders_at_peak();
  REQUIRE(then.size() == 2);
  CHECK(then[0].owner == saved);
  CHECK(then[0].bytes == 100);
  CHECK(then[1].bytes == 30);
  CHECK(account.brought_to_peak() == saved);
  REQUIRE(now.size() == 2);
  CHECK(now[0].bytes + now[1].bytes == 80);
  test::check_says(describe(then, 1), "linear");
  CHECK(describe(then, 1).find("gelu") == std::string::npos);
  account.reset_peak();
  CHECK(account.brought_to_peak() == Owner{});
}

TEST_CASE("the holders at the peak are right after any sequence of add, remove and move") {
  const std::array owners{saved, transient, Owner{}};
  std::mt19937 random(1);
  const auto below = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)); };
  Ledger account;
  std::map<Owner, std::int64_t> now, then;
  std::int64_t total = 0, peak = 0;
  for (int i = 0; i < 5000; ++i) {
    const Owner owner = owners[static_cast<std::size_t>(below(3))], other = owners[static_cast<std::size_t>(below(3))];
    const int bytes = 1 + below(9);
    switch (below(200) == 0 ? 3 : below(3)) {
      case 0:
        account.add(owner, bytes);
        now[owner] += bytes;
        total += bytes;
        break;
      case 1:
        if (now[owner] < bytes) continue;
        account.remove(owner, bytes);
        now[owner] -= bytes;
        total -= bytes;
        break;
      case 2:
        if (now[owner] < bytes || total == peak) continue;  // at the peak itself, both answers are right
        account.move(owner, other, bytes);
        now[owner] -= bytes;
        now[other] += bytes;
        break;
      default:
        account.reset_peak();
        peak = 0;
    }
    if (total > peak || peak == 0) {
      peak = total;
      then = now;
    }
    REQUIRE(account.peak() == peak);
    std::map<Owner, std::int64_t> told;
    for (const Held& held : account.holders_at_peak()) told[held.owner] = held.bytes;
    for (const Owner& each : owners) REQUIRE(told[each] == then[each]);
    std::int64_t held_now = 0;
    for (const Held& held : account.holders()) held_now += held.bytes;
    REQUIRE(held_now == total);
  }
}

TEST_CASE("moving bytes between owners changes no total") {
  Ledger account;
  account.add(transient, 64);
  account.move(transient, saved, 64);
  CHECK(account.total() == 64);
  CHECK(account.peak() == 64);
  CHECK(at(account.live(), Purpose::saved) == 64);
  CHECK(at(account.live(), Purpose::transient) == 0);
  account.remove(saved, 64);
  CHECK(account.total() == 0);
}

TEST_CASE("a tensor is counted while it exists, under the scope that allocated it") {
  Ledger& account = ledger(Device::meta);
  const std::int64_t before = account.total();
  {
    const AllocationScope scope({Purpose::transient, Label("made by a test"), Label("here")});
    const Tensor tensor = Tensor::empty({10}, DType::f64, Device::meta, Purpose::saved);
    const Tensor view = tensor.leading(0, 5);
    CHECK(account.total() == before + 80);
    CHECK(tensor.storage()->owner().op.text() == "made by a test");
    CHECK(tensor.storage()->owner().purpose == Purpose::saved);
    {
      const AllocationScope inner({Purpose::transient, Label("inner"), {}});
      CHECK(AllocationScope::current().op.text() == "inner");
    }
    CHECK(AllocationScope::current().op.text() == "made by a test");
    tensor.set_purpose(Purpose::gradients);
    CHECK(at(account.live(), Purpose::gradients) >= 80);
  }
  CHECK(account.total() == before);
}

TEST_CASE("several threads may allocate at once") {
  Ledger account;
  std::vector<std::thread> workers;
  for (int i = 0; i < 4; ++i)
    workers.emplace_back([&] {
      for (int k = 0; k < 2000; ++k) {
        account.add(saved, 3);
        account.remove(saved, 3);
      }
    });
  for (std::thread& worker : workers) worker.join();
  CHECK(account.total() == 0);
  CHECK(account.peak() <= 12);
}

TEST_CASE("labels of equal text are equal") {
  CHECK(Label("a.b") == Label("a.b"));
  CHECK(Label("a.b") != Label("a.c"));
  CHECK(Label() == Label(""));
  CHECK(Label("a.b").text() == "a.b");
}

TEST_CASE("bytes are formatted with units") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(1023) == "1023 B");
  CHECK(format_bytes(1536) == "1.50 KiB");
  CHECK(format_bytes(std::int64_t{3} << 30) == "3.00 GiB");
}

}  // namespace lacuna
