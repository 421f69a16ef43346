// The matmul primitive in f32, which every processor has, and in bf16 where the processor multiplies it.
#include "ops/products/onednn_matmul.h"

#include "core/ledger.h"
#include "tests/ops/op_sample.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

namespace lacuna {
namespace {

constexpr std::int64_t m = 37, n = 48, k = 65, gap = 3;  // gap: elements between rows

struct Case {
  DType type, result;
  bool a_transposed, b_transposed, add, bias;
};

Tensor stored(std::int64_t rows, std::int64_t columns, DType type, std::uint32_t site) {
  return sample_values({rows, columns + gap}, type, site);
}

/// The largest error against sums in f64, relative to the largest element.
double error_of(const Case& one) {
  const Tensor a = one.a_transposed ? stored(k, m, one.type, 1) : stored(m, k, one.type, 1),
               b = one.b_transposed ? stored(n, k, one.type, 2) : stored(k, n, one.type, 2),
               c = stored(m, n, one.result, 3), bias = one.bias ? sample_values({n}, DType::f32, 4) : Tensor();
  const auto left = a.to_vector(), right = b.to_vector(), before = c.to_vector();
  const auto operand = [](const Tensor& of, bool transposed) {
    return onednn::TypedOperand{of.raw(), of.dtype(), of.shape().back(), transposed};
  };
  onednn::matmul({m, n, k}, operand(a, one.a_transposed), operand(b, one.b_transposed), one.add, bias,
                 operand(c, false), Device::cpu);
  const auto after = c.to_vector();
  double worst = 0, largest = 0;
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n + gap; ++j) {
      const auto at = static_cast<std::size_t>(i * (n + gap) + j);
      if (j >= n) {
        CHECK(after[at] == before[at]);  // what lies between rows stays
        continue;
      }
      double sum = (one.add ? before[at] : 0) + (one.bias ? bias.to_vector()[static_cast<std::size_t>(j)] : 0);
      for (std::int64_t l = 0; l < k; ++l)
        sum += left[static_cast<std::size_t>(one.a_transposed ? l * (m + gap) + i : i * (k + gap) + l)] *
               right[static_cast<std::size_t>(one.b_transposed ? j * (k + gap) + l : l * (n + gap) + j)];
      worst = std::max(worst, std::abs(sum - after[at]));
      largest = std::max(largest, std::abs(sum));
    }
  return worst / largest;
}

}  // namespace

TEST_CASE("oneDNN's matmul reads operands in every layout, and adds a bias or the old result") {
  std::vector<std::pair<DType, DType>> types{{DType::f32, DType::f32}};
  if (onednn::multiplies_bf16())
    types.insert(types.end(), {{DType::bf16, DType::bf16}, {DType::bf16, DType::f32}});
  else
    MESSAGE("bf16 left out: this processor has no AVX512_BF16");
  for (const auto& [type, result] : types)
    for (const int form : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}) {
      CAPTURE(form);
      const Case one{type, result, (form & 1) != 0, (form & 2) != 0, (form & 4) != 0, (form & 8) != 0};
      CHECK(error_of(one) < (result == DType::bf16 ? 8e-3 : 1e-5));
      CHECK(error_of(one) < (result == DType::bf16 ? 8e-3 : 1e-5));  // prepared before
    }
}

}  // namespace lacuna
