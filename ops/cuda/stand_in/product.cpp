// Matrix products of the stand-in, by plain loops over f32.
#include "core/stand_in/queue.h"
#include "ops/cuda/stand_in/values.h"
#include "ops/products/product_cuda.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace lacuna::cuda {
namespace {

/// To 10 bits after the point, ties to even.
float rounded_to_tf32(float value) {
  const auto u = std::bit_cast<std::uint32_t>(value);
  if ((u & 0x7f800000U) == 0x7f800000U) return value;
  return std::bit_cast<float>((u + 0xfffU + ((u >> 13) & 1U)) & ~0x1fffU);
}

/// Matrix `index` of the batch as f32, transposed if `by_columns` asks for it: [height, width] after its transposition.
std::vector<float> values_of(const Factor& m, std::int64_t index, bool tf32) {
  const std::int64_t height = m.transposed ? m.columns : m.rows, width = m.transposed ? m.rows : m.columns;
  std::vector<float> values(static_cast<std::size_t>(height * width));
  for (std::int64_t i = 0; i < height; ++i)
    for (std::int64_t j = 0; j < width; ++j)
      values[static_cast<std::size_t>(i * width + j)] =
          value_at(m.dtype, m.data, index * m.item + (m.transposed ? j * m.stride + i : i * m.stride + j));
  if (tf32) std::ranges::transform(values, values.begin(), rounded_to_tf32);
  return values;
}

void multiply_now(const Product& p) {
  const std::int64_t inner = p.a.transposed ? p.a.rows : p.a.columns, width = p.c.columns;
  std::vector<float> row(static_cast<std::size_t>(width));
  for (std::int64_t item = 0; item < p.batch; ++item) {
    const std::vector<float> a = values_of(p.a, item, p.tf32), b = values_of(p.b, item, p.tf32);
    for (std::int64_t i = 0; i < p.c.rows; ++i) {
      row.assign(row.size(), 0);
      for (std::int64_t k = 0; k < inner; ++k) {
        const float left = a[static_cast<std::size_t>(i * inner + k)];
        const float* const right = b.data() + k * width;
        for (std::int64_t j = 0; j < width; ++j) row[static_cast<std::size_t>(j)] += left * right[j];
      }
      for (std::int64_t j = 0; j < width; ++j) {
        const std::int64_t at = item * p.c.item + i * p.c.stride + j;
        float sum = p.alpha * row[static_cast<std::size_t>(j)];
        if (p.add) sum += value_at(p.c.dtype, p.c.data, at);
        if (p.addend != nullptr) sum += value_at(p.c.dtype, p.addend, at);
        if (p.bias != nullptr) sum += value_at(p.c.dtype, p.bias, j);
        set_value(p.c.dtype, p.c.data, at, sum);
      }
      if (p.row_sums != nullptr) {
        float sum = 0;
        for (std::int64_t k = 0; k < inner; ++k) sum += a[static_cast<std::size_t>(i * inner + k)];
        p.row_sums[i] = sum;
      }
    }
  }
}

}  // namespace

std::size_t choose(Stream, int, const std::string&, std::size_t count, const std::function<bool(std::size_t)>&) {
  return count - 1;  // the one that is no other's fallback
}

bool has_plan(int, const Product&) { return true; }

void multiply(Stream stream, int, const Product& product, void*) {
  stand_in::enqueue(stream, [product] { multiply_now(product); });
}

}  // namespace lacuna::cuda
