#include "data/resize.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>
#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace lacuna {
namespace {

constexpr int fraction_bits = 22;  // as in Pillow: 32 bits less 8 of the pixel and 2 of headroom

/// Pillow's rounding of positions: +0.5, then truncation towards zero.
std::int64_t rounded(double x) { return static_cast<std::int64_t>(std::trunc(x + 0.5)); }
/// Pillow's rounding of weights: halves away from zero.
std::int32_t rounded_weight(double x) { return static_cast<std::int32_t>(std::trunc(x < 0 ? x - 0.5 : x + 0.5)); }

double sinc(double x) { return x == 0 ? 1 : std::sin(x * std::numbers::pi) / (x * std::numbers::pi); }

double weight_at(ResizeFilter filter, double x) {
  constexpr double a = -0.5;
  if (filter == ResizeFilter::box) return -0.5 < x && x <= 0.5 ? 1 : 0;
  if (filter == ResizeFilter::lanczos) return -3 <= x && x < 3 ? sinc(x) * sinc(x / 3) : 0;
  x = std::abs(x);
  if (filter == ResizeFilter::hamming) return x < 1 ? sinc(x) * (0.54 + 0.46 * std::cos(x * std::numbers::pi)) : 0;
  if (filter == ResizeFilter::bilinear) return std::max(0.0, 1.0 - x);
  if (x < 1) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0.0;
}

/// Half the filter's width.
double support_of(ResizeFilter filter) {
  switch (filter) {
    case ResizeFilter::bicubic:
      return 2;
    case ResizeFilter::lanczos:
      return 3;
    case ResizeFilter::nearest:
    case ResizeFilter::box:
      return 0.5;
    case ResizeFilter::bilinear:
    case ResizeFilter::hamming:
      break;
  }
  return 1;
}

using Sums = std::int32_t __attribute__((vector_size(32)));
constexpr std::int64_t lanes = 8, vectors = 4;  // accumulators of a loop

// Written by hand because GCC 12 converts these types lane by lane.
#ifdef __AVX2__
Sums wide(const std::uint8_t* from) {
  return reinterpret_cast<Sums>(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
}

void store_pixels(const Sums (&sums)[vectors], std::uint8_t* out) {
  const auto shifted = [&](int i) { return _mm256_srai_epi32(reinterpret_cast<__m256i>(sums[i]), fraction_bits); };
  const __m256i mixed =
      _mm256_packus_epi16(_mm256_packs_epi32(shifted(0), shifted(1)), _mm256_packs_epi32(shifted(2), shifted(3)));
  const __m256i ordered = _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), ordered);
}

/// Adds the two halves of the sums and rounds them to one pixel of four channels.
std::uint32_t pixel_of(const Sums& sums) {
  const auto both = reinterpret_cast<__m256i>(sums);
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
  sum = _mm_srai_epi32(sum, fraction_bits);
  sum = _mm_packs_epi32(sum, sum);
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(_mm_packus_epi16(sum, sum)));
}
#else
Sums wide(const std::uint8_t* from) {
  Sums sums;
  for (int i = 0; i < lanes; ++i) sums[i] = from[i];
  return sums;
}

std::uint8_t pixel(std::int32_t sum) { return static_cast<std::uint8_t>(std::clamp(sum >> fraction_bits, 0, 255)); }

void store_pixels(const Sums (&sums)[vectors], std::uint8_t* out) {
  for (int v = 0; v < vectors; ++v)
    for (int i = 0; i < lanes; ++i) out[v * lanes + i] = pixel(sums[v][i]);
}

std::uint32_t pixel_of(const Sums& sums) {
  std::array<std::uint8_t, 4> bytes;
  for (std::size_t i = 0; i < 4; ++i) bytes[i] = pixel(sums[i] + sums[i + 4]);
  return std::bit_cast<std::uint32_t>(bytes);
}
#endif

constexpr std::int32_t half = 1 << (fraction_bits - 1);

/// out [count] = weighted sum of `rows` [taps], each [count].
void add_rows(const std::uint8_t* const* rows, const std::int32_t* weights, std::int64_t taps, std::int64_t count,
              std::uint8_t* out) {
  std::int64_t i = 0;
  for (; i + vectors * lanes <= count; i += vectors * lanes) {
    Sums sums[vectors];
    for (Sums& sum : sums) sum = Sums{} + half;
    for (std::int64_t k = 0; k < taps; ++k)
      for (std::int64_t v = 0; v < vectors; ++v) sums[v] += wide(rows[k] + i + v * lanes) * weights[k];
    store_pixels(sums, out + i);
  }
  for (; i < count; ++i) {
    std::int32_t sum = half;
    for (std::int64_t k = 0; k < taps; ++k) sum += rows[k][i] * weights[k];
    out[i] = static_cast<std::uint8_t>(std::clamp(sum >> fraction_bits, 0, 255));
  }
}

}  // namespace

std::array<std::pair<std::string_view, ResizeFilter>, 6> names_of(ResizeFilter) {
  return {{{"bilinear", ResizeFilter::bilinear},
           {"bicubic", ResizeFilter::bicubic},
           {"nearest", ResizeFilter::nearest},
           {"box", ResizeFilter::box},
           {"hamming", ResizeFilter::hamming},
           {"lanczos", ResizeFilter::lanczos}}};
}

std::vector<std::int64_t> nearest_positions(std::int64_t source, std::int64_t target, std::int64_t count) {
  const double scale = static_cast<double>(source) / static_cast<double>(target);
  std::vector<std::int64_t> positions;
  for (double at = scale * 0.5; std::ssize(positions) < count; at += scale)  // Pillow adds up the steps
    positions.push_back(std::min(static_cast<std::int64_t>(at), source - 1));
  return positions;
}

ResizeAxis::ResizeAxis(std::int64_t source, std::int64_t target, ResizeFilter filter, const AxisWindow& window)
    : shrinks_by_(source - target), begin_(source) {
  const double scale = static_cast<double>(source) / static_cast<double>(target);
  const double wide = std::max(scale, 1.0);
  const double support = support_of(filter) * wide;  // in source positions
  std::vector<double> exact;                         // [taps]
  taps_.reserve(static_cast<std::size_t>(window.count));
  weights_.reserve(taps_.capacity() * static_cast<std::size_t>(std::ceil(support) * 2 + 1));
  std::vector<std::int64_t> nearest;  // by position
  if (filter == ResizeFilter::nearest) nearest = nearest_positions(source, target, window.begin + window.count);
  for (std::int64_t i = 0; i < window.count; ++i) {
    const std::int64_t position = window.begin + (window.reversed ? window.count - 1 - i : i);
    const double centre = (static_cast<double>(position) + 0.5) * scale;
    auto begin = std::max<std::int64_t>(0, rounded(centre - support));
    auto end = std::min(source, rounded(centre + support));
    if (filter == ResizeFilter::nearest) {
      begin = nearest[static_cast<std::size_t>(position)];
      end = begin + 1;
    }
    double sum = 0;
    exact.clear();
    for (std::int64_t k = begin; k < end; ++k) {
      exact.push_back(filter == ResizeFilter::nearest
                          ? 1
                          : weight_at(filter, (static_cast<double>(k) - centre + 0.5) * (1 / wide)));
      sum += exact.back();
    }
    const std::size_t at = weights_.size();
    for (const double weight : exact) weights_.push_back(rounded_weight(weight / sum * (1 << fraction_bits)));
    std::size_t first = at;
    for (; end - begin > 1 && weights_.back() == 0; --end) weights_.pop_back();
    for (; end - begin > 1 && weights_[first] == 0; ++begin) ++first;
    taps_.push_back({begin, end - begin, first});
    begin_ = std::min(begin_, begin);
    end_ = std::max(end_, end);
    most_taps_ = std::max(most_taps_, end - begin);
  }
  begin_ = std::min(begin_, end_);
}

RowResizer::RowResizer(const ResizeAxis& rows, const ResizeAxis& columns, std::int64_t channels, std::uint8_t* out,
                       std::int64_t out_row)
    : rows_(&rows),
      columns_(columns.size()),
      channels_(channels),
      source_columns_(columns.end() - columns.begin()),
      rows_first_(rows.shrinks_by() > 0 && rows.shrinks_by() > 2 * columns.shrinks_by()),
      out_(out),
      out_row_(out_row),
      next_row_(rows.begin()),
      pairs_((columns.most_taps() + 1) / 2),
      padded_(static_cast<std::size_t>(std::max(source_columns_ + 1, 2 * pairs_) * 4)),
      ring_rows_(rows.most_taps() + 2),  // a row's taps may end up to two rows before those of the previous row
      ring_row_(rows_first_ ? (source_columns_ + 1) * std::max<std::int64_t>(channels, 4) : columns_ * channels + 4),
      ring_(static_cast<std::size_t>(ring_row_ * ring_rows_)),
      row_taps_(static_cast<std::size_t>(ring_rows_)),
      line_(static_cast<std::size_t>(rows_first_ ? ring_row_ : 0)),
      columns_line_(static_cast<std::size_t>(rows_first_ ? columns_ * channels + 4 : 0)) {
  first_column_.reserve(static_cast<std::size_t>(columns_));
  column_weights_.resize(static_cast<std::size_t>(columns_ * pairs_ * 2 * 4));
  for (std::int64_t i = 0; i < columns_; ++i) {
    const auto& [begin, count, unused] = columns.taps(i);
    // At the right edge, zero-weight padding taps come first, since no columns follow.
    const std::int64_t wanted = begin - columns.begin();
    const std::int64_t first = std::clamp<std::int64_t>(source_columns_ + 1 - 2 * pairs_, 0, wanted);
    first_column_.push_back(static_cast<std::int32_t>(first));
    for (std::int64_t k = 0; k < count; ++k)
      std::fill_n(column_weights_.begin() + ((i * pairs_ * 2) + wanted - first + k) * 4, 4, columns.weights(i)[k]);
  }
}

/// Resamples four channels of `row` [source columns, 4] into `to` [columns, channels]; up to 3 bytes past its last
/// value are overwritten.
template <int pairs>
void RowResizer::make_columns_of_four(const std::uint8_t* row, std::int64_t first_channel, std::uint8_t* to) const {
  to += first_channel;
  const std::int64_t kept = std::min<std::int64_t>(channels_ - first_channel, 4);
  const bool spills = kept == channels_;  // overwritten bytes are rewritten later
  const std::int64_t count = pairs == 0 ? pairs_ : pairs;
  const std::int32_t* weights = column_weights_.data();
  for (const std::int32_t first : first_column_) {
    const std::uint8_t* from = row + std::int64_t{first} * 4;
    Sums sums{half, half, half, half, 0, 0, 0, 0};
    for (std::int64_t pair = 0; pair < count; ++pair, from += 8, weights += 8) {
      Sums weight;
      std::memcpy(&weight, weights, sizeof weight);
      sums += wide(from) * weight;
    }
    const std::uint32_t pixel = pixel_of(sums);
    if (spills)
      std::memcpy(to, &pixel, sizeof pixel);
    else
      std::memcpy(to, &pixel, static_cast<std::size_t>(kept));
    to += channels_;
  }
}

void RowResizer::make_group(const std::uint8_t* row, std::int64_t first_channel, std::uint8_t* to) const {
  switch (pairs_) {
    case 1:
      return make_columns_of_four<1>(row, first_channel, to);
    case 2:
      return make_columns_of_four<2>(row, first_channel, to);
    case 3:
      return make_columns_of_four<3>(row, first_channel, to);
    case 4:
      return make_columns_of_four<4>(row, first_channel, to);
    default:
      return make_columns_of_four<0>(row, first_channel, to);
  }
}

/// The horizontal pass of a row. `to` has [columns, channels] and 4 bytes.
void RowResizer::make_columns(const std::uint8_t* row, std::int64_t pixel_bytes, std::uint8_t* to) {
  if (pixel_bytes == 4 && channels_ <= 4) {
    const bool is_short = source_columns_ + 1 < 2 * pairs_;  // a column's taps extend past the row
    if (is_short) std::copy_n(row, source_columns_ * 4, padded_.data());
    return make_group(is_short ? padded_.data() : row, 0, to);
  }
  for (std::int64_t first = 0; first < channels_; first += 4) {
    const std::int64_t count = std::min<std::int64_t>(channels_ - first, 4);
    for (std::int64_t x = 0; x < source_columns_; ++x)
      for (std::int64_t c = 0; c < count; ++c)
        padded_[static_cast<std::size_t>(x * 4 + c)] = row[x * channels_ + first + c];
    make_group(padded_.data(), first, to);
  }
}

void RowResizer::push(const std::uint8_t* row, std::int64_t pixel_bytes) {
  const auto waiting = [&](std::int64_t number) { return ring_.data() + number % ring_rows_ * ring_row_; };
  if (rows_first_)
    std::copy_n(row, source_columns_ * pixel_bytes, waiting(next_row_));
  else
    make_columns(row, pixel_bytes, waiting(next_row_));
  ++next_row_;
  for (; next_out_ < rows_->size(); ++next_out_) {
    const auto& [first, count, unused] = rows_->taps(next_out_);
    if (first + count > next_row_) return;
    for (std::int64_t k = 0; k < count; ++k) row_taps_[static_cast<std::size_t>(k)] = waiting(first + k);
    const std::int32_t* const weights = rows_->weights(next_out_);
    std::uint8_t* const to = out_ + next_out_ * out_row_;
    if (rows_first_) {
      add_rows(row_taps_.data(), weights, count, source_columns_ * pixel_bytes, line_.data());
      make_columns(line_.data(), pixel_bytes, columns_line_.data());
      std::copy_n(columns_line_.data(), columns_ * channels_, to);
    } else {
      add_rows(row_taps_.data(), weights, count, columns_ * channels_, to);
    }
  }
}

}  // namespace lacuna
