// Matrix products of the stand-in, by plain loops over f32.
#include "core/dtype.h"
#include "core/stand_in/queue.h"
#include "ops/product_cuda.h"

#include <vector>

namespace lacuna::cuda {
namespace {

float value_at(DType dtype, const void* data, std::int64_t i) {
  switch (dtype) {
    case DType::bf16:
      return to_compute(static_cast<const bf16*>(data)[i]);
    case DType::f16:
      return to_compute(static_cast<const f16*>(data)[i]);
    default:
      return static_cast<const float*>(data)[i];
  }
}
void set_value(DType dtype, void* data, std::int64_t i, float value) {
  switch (dtype) {
    case DType::bf16:
      static_cast<bf16*>(data)[i] = bf16(value);
      break;
    case DType::f16:
      static_cast<f16*>(data)[i] = f16(value);
      break;
    default:
      static_cast<float*>(data)[i] = value;
  }
}

/// Matrix `index` of the batch as f32, transposed if `by_columns` asks for it: [height, width] after its transposition.
std::vector<float> values_of(const Factor& m, std::int64_t index) {
  const std::int64_t height = m.transposed ? m.columns : m.rows, width = m.transposed ? m.rows : m.columns;
  std::vector<float> values(static_cast<std::size_t>(height * width));
  for (std::int64_t i = 0; i < height; ++i)
    for (std::int64_t j = 0; j < width; ++j)
      values[static_cast<std::size_t>(i * width + j)] =
          value_at(m.dtype, m.data, index * m.item + (m.transposed ? j * m.stride + i : i * m.stride + j));
  return values;
}

void multiply_now(const Product& p) {
  const std::int64_t inner = p.a.transposed ? p.a.rows : p.a.columns, width = p.c.columns;
  std::vector<float> row(static_cast<std::size_t>(width));
  for (std::int64_t item = 0; item < p.batch; ++item) {
    const std::vector<float> a = values_of(p.a, item), b = values_of(p.b, item);
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
        if (p.bias != nullptr) sum += value_at(p.c.dtype, p.bias, j);
        set_value(p.c.dtype, p.c.data, at, sum);
      }
    }
  }
}

}  // namespace

void multiply(Stream stream, int, const Product& product, void*) {
  stand_in::enqueue(stream, [product] { multiply_now(product); });
}

}  // namespace lacuna::cuda
