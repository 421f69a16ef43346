// Release of memory while the heap is exhausted: this file replaces operator new of the test program.
#include "core/tensor.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <new>
#include <vector>

namespace {

thread_local bool heap_is_exhausted = false;

/// Calls `f` while operator new throws std::bad_alloc on this thread; says whether `f` threw it. (doctest allocates: no
/// check may stand in `f`.)
template <class F>
bool runs_out_of_heap(const F& f) {
  heap_is_exhausted = true;
  bool thrown = false;
  try {
    f();
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  heap_is_exhausted = false;
  return thrown;
}

}  // namespace

void* operator new(std::size_t bytes) {
  if (!heap_is_exhausted)
    if (void* const memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return heap_is_exhausted ? nullptr : std::malloc(bytes > 0 ? bytes : 1);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace lacuna {
namespace {

Tensor block(std::int64_t bytes) { return Tensor::empty({bytes}, DType::u8, Device::cpu); }

}  // namespace

TEST_CASE("tensors are released while the heap is exhausted") {
  const std::int64_t before = ledger(Device::cpu).total();
  std::vector<Tensor> tensors;
  for (std::int64_t i = 0; i < 100; ++i) {
    const AllocationScope scope({Purpose::transient, Label("op " + std::to_string(i % 7)), {}});
    tensors.push_back(block(1000 + 64 * i));
  }
  ledger(Device::cpu).reset_peak();
  CHECK_FALSE(runs_out_of_heap([&] {
    for (const std::size_t remainder : {1, 0, 2})  // leaves free blocks apart first, then joins them
      for (std::size_t i = 0; i < tensors.size(); ++i)
        if (i % 3 == remainder) tensors[i] = {};
  }));
  CHECK(ledger(Device::cpu).total() == before);
  CHECK(block(4000).defined());
}

TEST_CASE("an allocation that fails for want of heap leaves ledger and allocator as they were") {
  const std::int64_t before = ledger(Device::cpu).total();
  CHECK(runs_out_of_heap([] { block(5000); }));
  CHECK(ledger(Device::cpu).total() == before);
  const Owner first{Purpose::transient, Label("first"), {}}, second{Purpose::saved, Label("second"), {}};
  Ledger account;
  CHECK(runs_out_of_heap([&] { account.add(first, 10); }));
  CHECK(account.total() == 0);
  account.add(first, 10);
  CHECK(runs_out_of_heap([&] { account.move(first, second, 10); }));
  CHECK(at(account.live(), Purpose::transient) == 10);
  CHECK(at(account.live(), Purpose::saved) == 0);
  CHECK(account.holders().front().owner == first);
  account.move(first, second, 10);
  CHECK(account.holders().front().owner == second);
}

}  // namespace lacuna
