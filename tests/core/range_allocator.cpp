#include "core/range_allocator.h"

#include "core/error.h"

#include <doctest/doctest.h>

#include <set>
#include <vector>

namespace lacuna {
namespace {

constexpr std::size_t piece = 4096;

/// Memory that is mapped in pieces, of which there are `most`.
class Pieces {
 public:
  static constexpr std::size_t alignment = memory_alignment;
  Pieces(std::set<std::size_t>* mapped, std::size_t most) : mapped_(*mapped), most_(most) {}

  std::int64_t capacity() const { return std::int64_t{64} * piece; }
  void reserve(std::size_t) {
    range_.resize(size());
    base_ = range_.data();
  }
  std::byte* base() const { return base_; }
  std::size_t size() const { return 128 * piece; }
  bool commit(std::size_t begin, std::size_t end, std::size_t) {
    for (std::size_t i = begin / piece; i * piece < end; ++i) {
      if (mapped_.contains(i)) continue;
      if (mapped_.size() == most_) return false;
      mapped_.insert(i);
    }
    return true;
  }
  void decommit(std::size_t begin, std::size_t end) noexcept {
    for (std::size_t i = (begin + piece - 1) / piece; (i + 1) * piece <= end; ++i) mapped_.erase(i);
  }
  std::int64_t available(std::size_t) const { return capacity(); }
  [[noreturn]] void exhausted(std::size_t asked, std::int64_t) const { fail("no room for {} bytes", asked); }

 private:
  std::set<std::size_t>& mapped_;
  std::size_t most_;
  std::vector<std::byte> range_{};
  std::byte* base_ = nullptr;
};

}  // namespace

TEST_CASE("an allocation that memory runs out for gives back what it got") {
  std::set<std::size_t> mapped;
  RangeAllocator<Pieces> allocator(&mapped, std::size_t{4});
  void* const held = allocator.allocate(piece + 64);
  CHECK(mapped == std::set<std::size_t>{0, 1});
  CHECK_THROWS_AS(allocator.allocate(4 * piece), Error);
  CHECK(mapped == std::set<std::size_t>{0, 1});
  void* const rest = allocator.allocate(3 * piece - 64);
  CHECK(mapped.size() == 4);
  CHECK_THROWS_AS(allocator.allocate(64), Error);
  allocator.release(held, piece + 64);
  CHECK_THROWS_AS(allocator.allocate(2 * piece), Error);
  CHECK(mapped == std::set<std::size_t>{1, 2, 3});
  allocator.release(rest, 3 * piece - 64);
  CHECK(allocator.allocate(4 * piece) == held);
}

TEST_CASE("a pool hands out what is released to it, and nobody else has that before it is given back") {
  std::set<std::size_t> mapped;
  RangeAllocator<Pieces> allocator(&mapped, std::size_t{64});
  void* const before = allocator.allocate(piece);
  allocator.begin_pool();
  void* const a = allocator.allocate(4 * piece);
  void* const b = allocator.allocate(2 * piece);
  allocator.release(a, 4 * piece);
  void* const c = allocator.allocate(piece);
  CHECK(c == a);
  allocator.release(before, piece);  // none of the pool's
  allocator.end_pool();
  CHECK(allocator.pool_bytes() == 3 * piece);
  allocator.release(c, piece);
  CHECK(allocator.allocate(piece) == before);
  void* const other = allocator.allocate(4 * piece);
  CHECK(other != a);
  allocator.free_pool();
  CHECK(allocator.pool_bytes() == 0);
  CHECK(allocator.allocate(4 * piece) == a);
  allocator.release(b, 2 * piece);
  allocator.release(a, 4 * piece);
  CHECK(allocator.allocate(6 * piece) == a);  // joined
  CHECK_THROWS_AS(allocator.allocate(60 * piece), Error);
}

TEST_CASE("a pool's free block grows into the free memory behind it") {
  for (const bool at_top : {false, true}) {
    std::set<std::size_t> mapped;
    RangeAllocator<Pieces> allocator(&mapped, std::size_t{64});
    if (!at_top) {
      void* const ahead = allocator.allocate(16 * piece);
      void* const end = allocator.allocate(piece);
      allocator.release(ahead, 16 * piece);
      CHECK(end != ahead);
    }
    allocator.begin_pool();
    void* const a = allocator.allocate(4 * piece);
    allocator.release(a, 4 * piece);
    void* const small = allocator.allocate(piece);
    void* const large = allocator.allocate(5 * piece);
    allocator.end_pool();
    CHECK(small == a);
    CHECK(large == static_cast<std::byte*>(a) + piece);
    CHECK(allocator.pool_bytes() == 0);
    allocator.release(large, 5 * piece);
    allocator.release(small, piece);
    CHECK(allocator.pool_bytes() == 6 * piece);
    allocator.free_pool();
    CHECK(allocator.allocate(16 * piece) == a);
  }
}

}  // namespace lacuna
