#include "core/allocator.h"

#include "core/error.h"
#include "core/sanitizer.h"
#include "core/system_memory.h"
#include "core/tensor.h"

#include "tests/refusal.h"

#include <doctest/doctest.h>

#include <cstring>
#include <fstream>
#include <vector>

namespace lacuna {
namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

/// Resets `process_peak`; returns false if the operating system does not allow it.
[[maybe_unused]] bool reset_process_peak() {
  std::ofstream clear("/proc/self/clear_refs");
  return static_cast<bool>(clear << "5" << std::flush);
}

Tensor block(std::size_t bytes) { return Tensor::empty({static_cast<std::int64_t>(bytes)}, DType::u8, Device::cpu); }

}  // namespace

TEST_CASE("blocks are aligned and do not overlap") {
  std::vector<Tensor> blocks;
  for (std::size_t i = 1; i < 200; ++i) {
    blocks.push_back(block(i * 37 % 1000 + 1));
    CHECK(reinterpret_cast<std::uintptr_t>(blocks.back().raw()) % memory_alignment == 0);
    blocks.back().fill(static_cast<double>(i));
    if (i % 3 == 0) blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(blocks.size() / 2));
  }
  for (const Tensor& tensor : blocks) {
    const auto* const bytes = tensor.data<std::uint8_t>();
    for (std::int64_t i = 1; i < tensor.count(); ++i) REQUIRE(bytes[i] == bytes[0]);
  }
}

TEST_CASE("zero bytes take no memory") {
  CHECK(allocator(Device::cpu).allocate(0) == nullptr);
  CHECK(allocator(Device::meta).allocate(1 << 20) == nullptr);
  allocator(Device::cpu).release(nullptr, 0);
}

TEST_CASE("an allocation that cannot fit is refused, and the message lists the holders") {
  const Tensor held = block(3 * mebibyte);
  try {
    block(static_cast<std::size_t>(allocator(Device::cpu).capacity()) * 4);
    FAIL("it was granted");
  } catch (const Error& error) {
    const std::string message = error.what();
    test::check_says(message, "out of memory");
    test::check_says(message, "batch_size");
    test::check_says(message, "MiB");
  }
}

#ifndef LACUNA_ADDRESS_SANITIZER  // the sanitizer's allocator hands out fresh blocks

TEST_CASE("allocation takes the best fit, and free neighbours are joined") {
  // Large enough that no block left by another test fits.
  Tensor a = block(40 * mebibyte), b = block(20 * mebibyte), c = block(30 * mebibyte), guard = block(64);
  const std::byte* const start = a.raw();
  const std::byte* const middle = b.raw();
  const Tensor second_guard = block(64);
  SUBCASE("best fit") {
    const Tensor between = std::exchange(b, {});
    a = {};
    c = {};
    Tensor d = block(25 * mebibyte);
    CHECK(d.raw() == middle + 20 * mebibyte);  // in the 30 MiB rather than the 40
    Tensor e = block(38 * mebibyte);
    CHECK(e.raw() == start);
  }
  SUBCASE("neighbours join in any order of release") {
    b = {};
    a = {};
    c = {};
    CHECK(block(90 * mebibyte).raw() == start);
  }
  SUBCASE("neighbours join, the middle one last") {
    a = {};
    c = {};
    b = {};
    CHECK(block(90 * mebibyte).raw() == start);
  }
}

TEST_CASE("free blocks between used ones do not count against the capacity") {
  // Addresses only: nothing is written.
  const auto capacity = static_cast<std::size_t>(allocator(Device::cpu).capacity());
  Tensor first = block(capacity / 10 * 4);
  const Tensor guard = block(64), second = block(capacity / 10 * 4);
  first = {};
  CHECK(block(capacity / 2).defined());
  CHECK_THROWS_AS(block(capacity / 10 * 7), Error);
}

TEST_CASE("repeated steps do not grow the process") {
  const auto step = [] {
    std::vector<Tensor> held;
    for (std::size_t i = 1; i <= 8; ++i) {
      held.push_back(block(i * mebibyte));
      std::memset(held.back().raw(), 1, static_cast<std::size_t>(held.back().bytes()));
      if (i % 2 == 0) held.erase(held.begin());
    }
  };
  step();
  const std::int64_t after_one = process_resident();
  for (int i = 0; i < 20; ++i) step();
  CHECK(process_resident() <= after_one + static_cast<std::int64_t>(2 * mebibyte));
}

TEST_CASE("the peak of the process is that of its tensors") {
  allocator(Device::cpu).trim();
  const bool fresh = reset_process_peak();
  const std::int64_t before = process_peak();
  {
    const Tensor large = block(200 * mebibyte);
    std::memset(large.raw(), 1, static_cast<std::size_t>(large.bytes()));
    CHECK(process_resident() >= static_cast<std::int64_t>(200 * mebibyte));
  }
  if (fresh) {
    CHECK(process_peak() - before >= static_cast<std::int64_t>(190 * mebibyte));
    CHECK(process_peak() - before <= static_cast<std::int64_t>(210 * mebibyte));
  }
  allocator(Device::cpu).trim();
  CHECK(process_resident() < static_cast<std::int64_t>(200 * mebibyte));
}

#endif

}  // namespace lacuna
