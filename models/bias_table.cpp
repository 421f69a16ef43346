#include "models/bias_table.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace lacuna {
namespace {

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

/// The wanted entry as a mix of two stored ones.
struct Mix {
  std::int64_t lower, upper;
  double share;  // of the upper one
};
std::vector<Mix> mixes(std::int64_t from, std::int64_t to) {
  const std::vector<double> places = stored_places(from, to - 1);
  std::vector<Mix> all;
  for (std::int64_t distance = 1 - to; distance < to; ++distance) {
    const double at = std::clamp(static_cast<double>(distance), places.front(), places.back());
    const auto above = std::ranges::upper_bound(places, at);
    const std::int64_t upper = std::min<std::int64_t>(above - places.begin(), std::ssize(places) - 1);
    const std::int64_t lower = std::max<std::int64_t>(upper - 1, 0);
    const double low = places[static_cast<std::size_t>(lower)], high = places[static_cast<std::size_t>(upper)];
    all.push_back({lower, upper, upper == lower ? 0 : (at - low) / (high - low)});
  }
  return all;
}

}  // namespace

Tensor resample_bias_table(const Tensor& stored, std::int64_t height, std::int64_t width, std::int64_t heads) {
  const Shape& shape = stored.shape();
  if (shape.rank() != 2 || shape[1] != heads) return {};
  const auto side = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(shape[0]))));
  if (side * side != shape[0] || side % 2 == 0) return {};
  const Shape wanted{(2 * height - 1) * (2 * width - 1), heads};
  if (stored.device() == Device::meta) return Tensor::empty(wanted, DType::f32, Device::meta);
  const std::vector<double> from = stored.to_vector();
  std::vector<double> table;
  const std::vector<Mix> columns = mixes((side + 1) / 2, width);
  for (const Mix& row : mixes((side + 1) / 2, height))
    for (const Mix& column : columns)
      for (std::int64_t head = 0; head < heads; ++head) {
        const auto at = [&](std::int64_t i, std::int64_t j) {
          return from[static_cast<std::size_t>((i * side + j) * heads + head)];
        };
        const double left = std::lerp(at(row.lower, column.lower), at(row.upper, column.lower), row.share);
        const double right = std::lerp(at(row.lower, column.upper), at(row.upper, column.upper), row.share);
        table.push_back(std::lerp(left, right, column.share));
      }
  return Tensor::from(std::span<const double>(table), wanted, DType::f32, stored.device());
}

}  // namespace lacuna
