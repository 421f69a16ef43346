#include "models/io/resample.h"

#include "core/error.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace lacuna {
namespace {

/// Keys' cubic convolution.
double cubic(double x, double a) {
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

/// Weights [to, from] of a resampled axis; each row sums to 1.
struct Axis {
  std::int64_t from, to;
  std::vector<double> weights;

  Axis(std::int64_t source, std::int64_t target)
      : from(source), to(target), weights(static_cast<std::size_t>(source * target)) {}
  double* row(std::int64_t i) { return weights.data() + i * from; }
  const double* row(std::int64_t i) const { return weights.data() + i * from; }
};

Axis antialiased_axis(std::int64_t from, std::int64_t to) {
  constexpr double a = -0.5;  // Pillow's, too
  const double scale = static_cast<double>(from) / static_cast<double>(to), wide = std::max(scale, 1.0);
  const double support = 2 * wide;
  Axis axis(from, to);
  for (std::int64_t i = 0; i < to; ++i) {
    const double center = scale * (static_cast<double>(i) + 0.5);
    const auto begin = std::max<std::int64_t>(static_cast<std::int64_t>(center - support + 0.5), 0);
    const auto end = std::min(static_cast<std::int64_t>(center + support + 0.5), from);
    double* const row = axis.row(i);
    double sum = 0;
    for (std::int64_t j = begin; j < end; ++j) sum += row[j] = cubic((static_cast<double>(j) - center + 0.5) / wide, a);
    for (std::int64_t j = begin; j < end; ++j) row[j] /= sum;
  }
  return axis;
}

Axis plain_axis(std::int64_t from, std::int64_t to) {
  constexpr double a = -0.75;
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  Axis axis(from, to);
  for (std::int64_t i = 0; i < to; ++i) {
    const double place = scale * (static_cast<double>(i) + 0.5) - 0.5, below = std::floor(place);
    for (std::int64_t tap = -1; tap <= 2; ++tap) {
      const auto j = std::clamp<std::int64_t>(static_cast<std::int64_t>(below) + tap, 0, from - 1);
      axis.row(i)[j] += cubic(place - below - static_cast<double>(tap), a);
    }
  }
  return axis;
}

/// Places of the distances −(window − 1) to window − 1 of the stored table on the wanted table's axis, whose distances
/// reach from −reach to reach.
std::vector<double> stored_places(std::int64_t window, std::int64_t reach) {
  double least = 1.01, most = 1.5, ratio = 0;
  while (most - least > 1e-6) {
    ratio = (least + most) / 2;
    const double sum = (1 - std::pow(ratio, static_cast<double>(window - 1))) / (1 - ratio);
    (sum > static_cast<double>(reach) ? most : least) = ratio;
  }
  std::vector<double> places(static_cast<std::size_t>(2 * window - 1));
  const auto middle = static_cast<std::size_t>(window - 1);
  double place = 0, step = 1;
  for (std::size_t i = 1; i <= middle; ++i, step *= ratio) {
    place += step;
    places[middle + i] = place;
    places[middle - i] = -place;
  }
  return places;
}

/// Each wanted distance of windows of `to` as a mix of two stored ones, of windows of `from`.
Axis distance_axis(std::int64_t from, std::int64_t to) {
  const std::vector<double> places = stored_places(from, to - 1);
  Axis axis(2 * from - 1, 2 * to - 1);
  for (std::int64_t distance = 1 - to; distance < to; ++distance) {
    const double at = std::clamp(static_cast<double>(distance), places.front(), places.back());
    const auto above = std::ranges::upper_bound(places, at);
    const std::int64_t upper = std::min<std::int64_t>(above - places.begin(), std::ssize(places) - 1);
    const std::int64_t lower = std::max<std::int64_t>(upper - 1, 0);
    const double low = places[static_cast<std::size_t>(lower)], high = places[static_cast<std::size_t>(upper)];
    const double share = upper == lower ? 0 : (at - low) / (high - low);
    axis.row(distance + to - 1)[lower] += 1 - share;
    axis.row(distance + to - 1)[upper] += share;
  }
  return axis;
}

/// `grid` [rows.from, columns.from, C] as `out` [rows.to, columns.to, C].
void resample(const double* grid, const Axis& rows, const Axis& columns, std::int64_t channels, double* out) {
  const std::int64_t width = columns.to * channels;
  std::vector<double> lines(static_cast<std::size_t>(rows.from * width));  // [rows.from, columns.to, C]
  const auto add = [](const double* from, double weight, std::int64_t count, double* to) {
    if (weight == 0) return;
    for (std::int64_t i = 0; i < count; ++i) to[i] += weight * from[i];
  };
  for (std::int64_t y = 0; y < rows.from; ++y)
    for (std::int64_t x = 0; x < columns.to; ++x)
      for (std::int64_t j = 0; j < columns.from; ++j)
        add(grid + (y * columns.from + j) * channels, columns.row(x)[j], channels,
            lines.data() + y * width + x * channels);
  std::fill_n(out, rows.to * width, 0.0);
  for (std::int64_t y = 0; y < rows.to; ++y)
    for (std::int64_t j = 0; j < rows.from; ++j) add(lines.data() + j * width, rows.row(y)[j], width, out + y * width);
}

}  // namespace

std::int64_t square_side(std::int64_t patches) {
  if (patches < 1) return 0;
  const auto side = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(patches))));
  return side * side == patches ? side : 0;
}

Tensor resample_positions(const Tensor& table, const ImageSize& grid, std::int64_t leading, Cubic how) {
  const Shape& shape = table.shape();
  expect(shape.rank() == 3 && shape[0] == 1 && leading >= 0, "a table of positions: expected [1, tokens, C], got {}",
         shape);
  const std::int64_t from = square_side(shape[1] - leading), channels = shape[2];
  expect(from > 0 && grid.height > 0 && grid.width > 0, "positions of {} patches: expected a square grid, got none",
         shape[1] - leading);
  const std::int64_t tokens = leading + grid.height * grid.width;
  const auto axis = [&](std::int64_t to) {
    return how == Cubic::plain ? plain_axis(from, to) : antialiased_axis(from, to);
  };
  const std::vector<double> values = table.to_vector();
  std::vector<double> out(static_cast<std::size_t>(tokens * channels));  // [tokens, C]
  std::copy_n(values.begin(), leading * channels, out.begin());
  resample(values.data() + leading * channels, axis(grid.height), axis(grid.width), channels,
           out.data() + leading * channels);
  return Tensor::from(std::span<const double>(out), {1, tokens, channels}, DType::f32);
}

Tensor resample_bias_table(const Tensor& stored, std::int64_t height, std::int64_t width, std::int64_t heads) {
  const Shape& shape = stored.shape();
  if (shape.rank() != 2 || shape[1] != heads) return {};
  const std::int64_t side = square_side(shape[0]), window = (side + 1) / 2;
  if (side % 2 == 0) return {};
  const Shape wanted{(2 * height - 1) * (2 * width - 1), heads};
  if (stored.device() == Device::meta) return Tensor::empty(wanted, DType::f32, Device::meta);
  std::vector<double> table(static_cast<std::size_t>(wanted.count()));
  resample(stored.to_vector().data(), distance_axis(window, height), distance_axis(window, width), heads, table.data());
  return Tensor::from(std::span<const double>(table), wanted, DType::f32, stored.device());
}

}  // namespace lacuna
