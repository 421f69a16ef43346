#include "models/io/positions.h"

#include "core/error.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace lacuna {
namespace {

/// Keys' cubic convolution with a = -1/2, as Pillow's and torch's antialiased one.
double cubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

/// Weights [to, from] of a resampled axis; each row sums to 1.
std::vector<double> axis_weights(std::int64_t from, std::int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), wide = std::max(scale, 1.0);
  const double support = 2 * wide;
  std::vector<double> weights(static_cast<std::size_t>(from * to));
  for (std::int64_t i = 0; i < to; ++i) {
    const double center = scale * (static_cast<double>(i) + 0.5);
    const auto begin = std::max<std::int64_t>(static_cast<std::int64_t>(center - support + 0.5), 0);
    const auto end = std::min(static_cast<std::int64_t>(center + support + 0.5), from);
    double* const row = weights.data() + i * from;
    double sum = 0;
    for (std::int64_t j = begin; j < end; ++j) sum += row[j] = cubic((static_cast<double>(j) - center + 0.5) / wide);
    for (std::int64_t j = begin; j < end; ++j) row[j] /= sum;
  }
  return weights;
}

}  // namespace

std::int64_t square_side(std::int64_t patches) {
  if (patches < 1) return 0;
  const auto side = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(patches))));
  return side * side == patches ? side : 0;
}

Tensor resample_positions(const Tensor& table, std::int64_t tokens, std::int64_t leading) {
  const Shape& shape = table.shape();
  expect(shape.rank() == 3 && shape[0] == 1 && leading >= 0, "a table of positions: expected [1, tokens, C], got {}",
         shape);
  const std::int64_t from = square_side(shape[1] - leading), to = square_side(tokens - leading), channels = shape[2];
  expect(from > 0 && to > 0, "positions of {} and {} patches are no square grids", shape[1] - leading,
         tokens - leading);
  const std::vector<double> values = table.to_vector(), weights = axis_weights(from, to);
  std::vector<double> rows(static_cast<std::size_t>(from * to * channels));  // [from, to, C]
  const double* const grid = values.data() + leading * channels;             // [from, from, C]
  for (std::int64_t y = 0; y < from; ++y)
    for (std::int64_t x = 0; x < to; ++x)
      for (std::int64_t j = 0; j < from; ++j)
        for (std::int64_t c = 0; c < channels; ++c)
          rows[static_cast<std::size_t>((y * to + x) * channels + c)] +=
              weights[static_cast<std::size_t>(x * from + j)] * grid[(y * from + j) * channels + c];
  std::vector<double> out(static_cast<std::size_t>(tokens * channels));  // [tokens, C]
  std::copy_n(values.begin(), leading * channels, out.begin());
  double* const result = out.data() + leading * channels;  // [to, to, C]
  for (std::int64_t y = 0; y < to; ++y)
    for (std::int64_t j = 0; j < from; ++j) {
      const double weight = weights[static_cast<std::size_t>(y * from + j)];
      if (weight == 0) continue;
      for (std::int64_t i = 0; i < to * channels; ++i)
        result[y * to * channels + i] += weight * rows[static_cast<std::size_t>(j * to * channels + i)];
    }
  return Tensor::from(std::span<const double>(out), {1, tokens, channels}, DType::f32);
}

}  // namespace lacuna
