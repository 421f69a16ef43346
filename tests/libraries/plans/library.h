// A cuBLASLt that multiplies nothing and offers three algorithms (library.cpp).
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace lacuna::test {

struct CublasltState {
  std::array<float, 3> takes{3, 1, 2};  // ms of each algorithm
  float clock = 0;                      // ms
  std::vector<std::size_t> runs{};      // algorithms that ran
  bool sums_rows = true;                // whether it has products with sums of rows
  // The last product: what is added, times what, and where the result is written.
  const void* added = nullptr;
  float beta = 0;
  const void* result = nullptr;
};

}  // namespace lacuna::test
