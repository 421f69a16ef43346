#include "ops/products/gemm.h"
#include "tests/ops/op_sample.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

namespace lacuna {
namespace {

/// Elements of a matrix as the product reads it, row-major.
std::vector<double> seen(const Matrix& m) {
  const std::vector<double> all = m.tensor.to_vector();
  std::vector<double> values;
  for (std::int64_t i = 0; i < m.height(); ++i)
    for (std::int64_t j = 0; j < m.width(); ++j)
      values.push_back(all[static_cast<std::size_t>(m.first + (m.transposed ? j * m.stride + i : i * m.stride + j))]);
  return values;
}

/// The largest error of gemm against sums in f64, relative to the largest element.
double error_of(const Matrix& a, const Matrix& b, const Matrix& c, const GemmOptions& options) {
  const std::vector<double> left = seen(a), right = seen(b), before = seen(c);
  const std::vector<double> bias = options.bias.defined() ? options.bias.to_vector() : std::vector<double>{};
  gemm(a, b, c, options);
  const std::vector<double> after = seen(c);
  const auto n = static_cast<std::size_t>(c.columns), depth = static_cast<std::size_t>(a.width());
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < after.size(); ++i) {
    double sum = 0;
    for (std::size_t k = 0; k < depth; ++k) sum += left[i / n * depth + k] * right[k * n + i % n];
    sum = options.alpha * sum + (options.add ? before[i] : 0) + (bias.empty() ? 0 : bias[i % n]);
    worst = std::max(worst, std::abs(sum - after[i]));
    largest = std::max(largest, std::abs(sum));
  }
  return worst / largest;
}

struct Extents {
  std::int64_t m, n, k;
};

Matrix operand(std::int64_t rows, std::int64_t columns, bool transposed, DType dtype, std::uint32_t site) {
  const Shape shape = transposed ? Shape{columns, rows} : Shape{rows, columns};
  const Matrix m(sample_values(shape, dtype, site));
  return transposed ? m.t() : m;
}

double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 1e-13;
    case DType::f32:
      return 1e-5;
    default:
      return 8e-3;
  }
}

}  // namespace

TEST_CASE("gemm: every layout and type agrees with sums in f64") {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    for (const Extents& e : {Extents{1, 1, 1}, {7, 5, 3}, {101, 19, 300}, {13, 530, 40}, {6, 16, 1025}}) {
      for (const int layout : {0, 1, 2, 3}) {
        INFO(name_of(dtype), " [", e.m, ", ", e.k, "] by [", e.k, ", ", e.n, "], layout ", layout);
        const Matrix a = operand(e.m, e.k, (layout & 1) != 0, dtype, 1),
                     b = operand(e.k, e.n, (layout & 2) != 0, dtype, 2);
        const Matrix c(sample_values({e.m, e.n}, dtype, 3));
        const Tensor bias = sample_values({e.n}, dtype == DType::f64 ? DType::f64 : DType::f32, 4);
        CHECK(error_of(a, b, c, {}) < tolerance(dtype));
        CHECK(error_of(a, b, c, {.alpha = -0.5, .add = true, .bias = bias}) < tolerance(dtype));
      }
    }
  }
}

TEST_CASE("gemm: strides of a large power of two") {
  const Matrix a = operand(40, 700, true, DType::f32, 1), b = operand(700, 512, false, DType::f32, 2);
  CHECK(error_of(a, b, Matrix(Tensor::zeros({40, 512}, DType::f32, Device::cpu)), {}) < 1e-5);
  CHECK(error_of(b.t(), a.t(), Matrix(sample_values({512, 40}, DType::f32, 3)), {.add = true, .bias = {}}) < 1e-5);
}

TEST_CASE("gemm: views of rows and columns; the rest of the output is untouched") {
  const Matrix a(sample_values({20, 30}, DType::f32, 1)), b(sample_values({40, 50}, DType::f32, 2));
  const Tensor out = Tensor::full({9, 21}, 7, DType::f32, Device::cpu);
  const Matrix c = Matrix(out).row_range(1, 8).column_range(2, 19);
  CHECK(error_of(a.row_range(3, 10).column_range(5, 16), b.row_range(10, 21).column_range(20, 37), c, {}) < 1e-5);
  const std::vector<double> values = out.to_vector();
  CHECK(std::count(values.begin(), values.end(), 7.0) == 9 * 21 - 7 * 17);
}

TEST_CASE("gemm_batched: agrees with gemm") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Matrix a(sample_values({5 * 7, 3}, dtype, 1)), b(sample_values({5 * 4, 3}, dtype, 2));
    const Tensor together = Tensor::empty({5 * 7, 4}, dtype, Device::cpu);
    gemm_batched(5, a, b.t(), Matrix(together), {.alpha = 2});
    for (std::int64_t i = 0; i < 5; ++i) {
      const Tensor one = Tensor::empty({7, 4}, dtype, Device::cpu);
      gemm(a.row_range(7 * i, 7 * i + 7), b.row_range(4 * i, 4 * i + 4).t(), Matrix(one), {.alpha = 2});
      const std::vector<double> expected = one.to_vector(), got = together.row_range(7 * i, 7 * i + 7).to_vector();
      for (std::size_t j = 0; j < expected.size(); ++j) CHECK(got[j] == doctest::Approx(expected[j]).epsilon(1e-5));
    }
  }
}

TEST_CASE("gemm: extents that do not agree are an error") {
  const Matrix a(sample_values({4, 5}, DType::f32, 1)), b(sample_values({6, 3}, DType::f32, 2));
  const Matrix c(Tensor::empty({4, 3}, DType::f32, Device::cpu));
  CHECK_THROWS_AS(gemm(a, b, c), Error);
}

}  // namespace lacuna
