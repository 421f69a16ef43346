// Products of pairs of bf16, which machines without instructions for them compute in f32.
#include "ops/attention/attention_factors.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

namespace lacuna {
namespace {

using tile::Pair;
using tile::Vector;
using Factors = tile::Factors<bf16, true>;

constexpr std::int64_t lanes = tile::lanes<float>;

std::vector<float> random_values(std::int64_t count, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(generator);
  return values;
}
std::vector<bf16> rounded(const std::vector<float>& values) {
  std::vector<bf16> to;
  for (const float value : values) to.emplace_back(value);
  return to;
}

/// Extents of a product, and space after each row of its operands.
struct Extents {
  std::int64_t height, depth, columns, gap;
};
const std::vector<Extents> all_extents{{1, 1, 1, 0},   {13, 64, 197, 0}, {24, 7, 33, 1},
                                       {5, 33, 16, 3}, {49, 50, 31, 2},  {3, 35, 20, 2}};

/// Checks a product against f64: exact products of bf16 are summed in f32. `a(i, k)` and `b(k, j)` are the values.
template <bool transposed, class A, class B>
void check_product(const Extents& e, const tile::Left<Pair, transposed>& left, const std::vector<Pair>& panels,
                   const A& a, const B& b) {
  std::int64_t seen = 0;
  tile::product(
      left, e.height, tile::pairs_of(e.depth), panels.data(), e.columns,
      [&](std::int64_t i, std::int64_t j, const Vector<float>& sums) {
        for (std::int64_t lane = 0; lane < lanes && j + lane < e.columns; ++lane, ++seen) {
          double sum = 0, size = 0;
          for (std::int64_t k = 0; k < e.depth; ++k) {
            const double term = static_cast<double>(a(i, k)) * static_cast<double>(b(k, j + lane));
            sum += term;
            size += std::abs(term);
          }
          CHECK(std::abs(static_cast<double>(sums[lane]) - sum) <= static_cast<double>(e.depth + 1) * 0x1p-23 * size);
        }
      });
  CHECK(seen == e.height * e.columns);
}

std::vector<Pair> panels_for(const Extents& e) {
  return std::vector<Pair>(static_cast<std::size_t>(tile::pairs_of(e.depth) * tile::padded<Pair>(e.columns)));
}

/// A library without the instructions computes pairs too, one with them needs the processor.
const bool runs_pairs = !tile::has_pairs || tile::multiplies_pairs();

TEST_CASE("pairs: products of tokens, the right factor transposed" * doctest::skip(!runs_pairs)) {
  for (const Extents& e : all_extents) {
    CAPTURE(e.depth);
    const std::int64_t stride = e.depth + e.gap;
    const std::vector<bf16> a = rounded(random_values(e.height * stride, 1));
    const std::vector<bf16> b = rounded(random_values(e.columns * stride, 2));
    std::vector<Pair> panels = panels_for(e), copy(static_cast<std::size_t>(e.height * tile::pairs_of(e.depth)));
    Factors::pack_transposed(b.data(), stride, e.depth, e.columns, panels.data());
    const auto at = [stride](const std::vector<bf16>& of, std::int64_t row, std::int64_t k) {
      return to_compute(of[static_cast<std::size_t>(row * stride + k)]);
    };
    check_product(
        e, Factors::tokens(a.data(), stride, e.height, e.depth, copy.data()), panels,
        [&](std::int64_t i, std::int64_t k) { return at(a, i, k); },
        [&](std::int64_t k, std::int64_t j) { return at(b, j, k); });
  }
}

TEST_CASE("pairs: products of rounded scores and of their transpose" * doctest::skip(!runs_pairs)) {
  for (const Extents& e : all_extents) {
    CAPTURE(e.depth);
    const std::int64_t right_stride = e.columns + e.gap;
    const std::vector<bf16> b = rounded(random_values(e.depth * right_stride, 3));
    std::vector<Pair> panels = panels_for(e);
    Factors::pack(b.data(), right_stride, e.depth, e.columns, panels.data());
    const auto right = [&](std::int64_t k, std::int64_t j) {
      return to_compute(b[static_cast<std::size_t>(k * right_stride + j)]);
    };

    const std::int64_t stride = tile::padded<float>(e.depth);
    std::vector<float> scores = random_values(e.height * stride, 4);  // [height, depth]
    const std::vector<bf16> a = rounded(scores);
    check_product(
        e, Factors::scores(scores.data(), stride, e.height, e.depth), panels,
        [&](std::int64_t i, std::int64_t k) { return to_compute(a[static_cast<std::size_t>(i * stride + k)]); }, right);

    const std::int64_t columns_stride = tile::padded<float>(e.height);
    std::vector<float> columns = random_values((e.depth + 1) * columns_stride + tile::rows, 5);  // [depth, height]
    const std::vector<bf16> transposed = rounded(columns);
    check_product(
        e, Factors::transposed_scores(columns.data(), columns_stride, e.depth, e.height, columns.data()), panels,
        [&](std::int64_t i, std::int64_t k) {
          return to_compute(transposed[static_cast<std::size_t>(k * columns_stride + i)]);
        },
        right);
  }
}

}  // namespace
}  // namespace lacuna
