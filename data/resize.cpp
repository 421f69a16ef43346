#include "data/resize.h"

#include <algorithm>
#include <cmath>

namespace lacuna {
namespace {

constexpr int fraction_bits = 22;  // Pillow's: 8 bits of pixel, 2 of head room

/// As Pillow rounds positions: negative numbers towards zero.
std::int64_t rounded(double x) { return static_cast<std::int64_t>(std::trunc(x + 0.5)); }
/// As it rounds weights: halves away from zero.
std::int32_t rounded_weight(double x) { return static_cast<std::int32_t>(std::trunc(x < 0 ? x - 0.5 : x + 0.5)); }

double weight_at(ResizeFilter filter, double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (filter == ResizeFilter::bilinear) return std::max(0.0, 1.0 - x);
  if (x < 1) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0.0;
}

}  // namespace

ResizeAxis::ResizeAxis(std::int64_t source, std::int64_t target, ResizeFilter filter) : source_(source) {
  const double scale = static_cast<double>(source) / static_cast<double>(target);
  const double wide = std::max(scale, 1.0);
  const double support = (filter == ResizeFilter::bicubic ? 2 : 1) * wide;  // half the filter, in source positions
  taps_ = static_cast<std::int64_t>(std::ceil(support)) * 2 + 1;
  first_.resize(static_cast<std::size_t>(target));
  count_.resize(first_.size());
  weights_.resize(first_.size() * static_cast<std::size_t>(taps_));
  std::vector<double> exact(static_cast<std::size_t>(taps_));  // [taps]
  for (std::size_t i = 0; i < first_.size(); ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto begin = std::max<std::int64_t>(0, rounded(centre - support));
    const auto end = std::min(source, rounded(centre + support));
    double sum = 0;
    for (std::int64_t k = begin; k < end; ++k) {
      exact[static_cast<std::size_t>(k - begin)] = weight_at(filter, (static_cast<double>(k) - centre + 0.5) / wide);
      sum += exact[static_cast<std::size_t>(k - begin)];
    }
    first_[i] = begin;
    count_[i] = end - begin;
    for (std::int64_t k = 0; k < end - begin; ++k)
      weights_[i * static_cast<std::size_t>(taps_) + static_cast<std::size_t>(k)] =
          rounded_weight(exact[static_cast<std::size_t>(k)] / sum * (1 << fraction_bits));
  }
}

void ResizeAxis::apply(const std::uint8_t* in, std::int64_t outer, std::int64_t inner, std::uint8_t* out) const {
  for (std::int64_t o = 0; o < outer; ++o) {
    const std::uint8_t* const line = in + o * source_ * inner;  // [source, inner]
    for (std::int64_t i = 0; i < target(); ++i, out += inner) {
      const std::int32_t* const weight = weights_.data() + i * taps_;
      const std::uint8_t* const from = line + first_[static_cast<std::size_t>(i)] * inner;
      const std::int64_t count = count_[static_cast<std::size_t>(i)];
      for (std::int64_t j = 0; j < inner; ++j) {
        std::int32_t sum = 1 << (fraction_bits - 1);
        for (std::int64_t k = 0; k < count; ++k) sum += from[k * inner + j] * weight[k];
        out[j] = static_cast<std::uint8_t>(std::clamp(sum >> fraction_bits, 0, 255));
      }
    }
  }
}

void resize(const ResizeAxis& rows, const ResizeAxis& columns, const Tensor& in, const Tensor& between,
            const Tensor& out) {
  const std::int64_t channels = in.shape()[2];
  columns.apply(in.data<const std::uint8_t>(), rows.source(), channels, between.data<std::uint8_t>());
  rows.apply(between.data<const std::uint8_t>(), 1, columns.target() * channels, out.data<std::uint8_t>());
}

}  // namespace lacuna
