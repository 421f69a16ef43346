#include "data/augment/affine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

namespace lacuna::augment {
namespace {

/// Python's round(value, 15).
double rounded(double value) { return std::stod(fmt::format("{:.15f}", value)); }

/// Linear interpolation between two neighbours.
double between(double a, double b, double part) { return a + (b - a) * part; }
/// Cubic interpolation between the middle two of four neighbours; the slope at each is that between its neighbours.
double between(double a, double b, double c, double d, double part) {
  return b + part * (-a + c + part * (2 * (a - b) + c - d + part * (-a + b - c + d)));
}

/// Interpolates out[i] from neighbours[...][i], which `value` reads.
template <ResizeFilter filter>
void interpolate(int count, auto&& value, const double* part, double* out) {
#pragma omp simd
  for (int i = 0; i < count; ++i) {
    if constexpr (filter == ResizeFilter::bilinear)
      out[i] = between(value(0, i), value(1, i), part[i]);
    else
      out[i] = between(value(0, i), value(1, i), value(2, i), value(3, i), part[i]);
  }
}

constexpr int block = 64;  // pixels per block, small enough for the L1 cache

/// An image of packed pixels.
struct Source {
  const std::uint32_t* pixels;  // [height, width]
  std::int32_t height, width;
};

/// Writes `count` packed pixels, the first of which has its centre at (x, y). If source points move only across (within
/// a row) or only down, neighbours in the other direction have weight 0 and are not read.
template <ResizeFilter filter, bool across, bool down>
void transform_block(const Affine& map, const Source& source, double x, double y, int count, std::uint32_t fill,
                     std::uint32_t* to) {
  constexpr int neighbours = filter == ResizeFilter::bilinear ? 2 : 4,
                before = filter == ResizeFilter::bilinear ? 0 : 1;
  constexpr int tall = down ? neighbours : 1, wide = across ? neighbours : 1;
  const std::uint32_t* const pixels = source.pixels;
  const std::int32_t height = source.height, width = source.width;
  double left[block], top[block], part_x[block], part_y[block];
  std::int32_t inside[block];  // 1: inside the image
#pragma omp simd
  for (int i = 0; i < count; ++i) {
    const double from_x = map.xx * (x + i) + map.xy * y + map.x0, from_y = map.yx * (x + i) + map.yy * y + map.y0;
    const bool is_inside = (from_x >= 0) & (from_x < width) & (from_y >= 0) & (from_y < height);
    const double point_x = is_inside ? from_x - 0.5 : 0.0, point_y = is_inside ? from_y - 0.5 : 0.0;
    left[i] = std::floor(point_x);
    top[i] = std::floor(point_y);
    part_x[i] = point_x - left[i];
    part_y[i] = point_y - top[i];
    inside[i] = is_inside ? 1 : 0;
  }
  std::int32_t rows[tall][block], columns[wide][block];  // neighbours, clamped to the image
  const auto neighbour = [&](double first, int step, std::int32_t extent) {
    return std::min(std::max(static_cast<std::int32_t>(first) + step, 0), extent - 1);
  };
  for (int u = 0; u < wide; ++u)
    for (int i = 0; i < count; ++i) columns[u][i] = neighbour(left[i], across ? u - before : 0, width);
  for (int v = 0; v < tall; ++v)
    for (int i = 0; i < count; ++i) rows[v][i] = neighbour(top[i], down ? v - before : 0, height) * width;
  double of_row[tall][3][block];  // [.][channel]: interpolated within a row
  for (int v = 0; v < tall; ++v) {
    std::uint32_t taps[wide][block];
    for (int u = 0; u < wide; ++u)
      for (int i = 0; i < count; ++i) taps[u][i] = pixels[rows[v][i] + columns[u][i]];
    for (int c = 0; c < 3; ++c) {
      const auto channel = [&](int u, int i) {
        return static_cast<double>(static_cast<int>(taps[u][i] >> 8 * c & 255));
      };
      if constexpr (across)
        interpolate<filter>(count, channel, part_x, of_row[v][c]);
      else
        for (int i = 0; i < count; ++i) of_row[v][c][i] = channel(0, i);
    }
  }
  std::fill_n(to, count, 0U);
  for (int c = 0; c < 3; ++c) {
    const auto row = [&](int v, int i) { return of_row[v][c][i]; };
    double blended[block];
    const double* const values = down ? blended : of_row[0][c];
    if constexpr (down) interpolate<filter>(count, row, part_y, blended);
#pragma omp simd
    for (int i = 0; i < count; ++i) {
      const double positive = values[i] < 0.0 ? 0.0 : values[i];
      const auto byte = static_cast<std::int32_t>(positive > 255.0 ? 255.0 : positive);  // truncated, not rounded
      to[i] |= static_cast<std::uint32_t>(byte) << 8 * c;
    }
  }
  for (int i = 0; i < count; ++i) to[i] = inside[i] != 0 ? to[i] : fill;
}

using BlockTransform = decltype(&transform_block<ResizeFilter::bilinear, true, true>);

template <ResizeFilter filter>
BlockTransform block_transform(const Affine& map) {
  const bool rows_stay = map.yx == 0 && map.yy == 1 && map.y0 == 0;
  const bool columns_stay = map.xx == 1 && map.xy == 0 && map.x0 == 0;
  if (rows_stay) return transform_block<filter, true, false>;
  return columns_stay ? transform_block<filter, false, true> : transform_block<filter, true, true>;
}

/// Packs pixels into 32 bits, for vector gathers.
template <int channels>
void pack_pixels(const std::uint8_t* from, std::int64_t count, std::uint32_t* to) {
  for (std::int64_t i = 0; i < count; ++i, from += channels) {
    to[i] = from[0];
    if constexpr (channels == 3) to[i] |= std::uint32_t{from[1]} << 8 | std::uint32_t{from[2]} << 16;
  }
}

template <int channels>
void unpack_pixels(const std::uint32_t* from, std::int64_t count, std::uint8_t* to) {
  for (std::int64_t i = 0; i < count; ++i)
    for (int c = 0; c < channels; ++c) to[i * channels + c] = static_cast<std::uint8_t>(from[i] >> 8 * c);
}

template <int channels>
void transform_image(const Affine& map, ResizeFilter filter, std::span<const std::uint8_t> fill, const ImageView& image,
                     std::span<std::uint32_t> scratch) {
  const std::int64_t count = image.height * image.width;
  const BlockTransform transform_one = filter == ResizeFilter::bilinear ? block_transform<ResizeFilter::bilinear>(map)
                                                                        : block_transform<ResizeFilter::bicubic>(map);
  pack_pixels<channels>(image.pixels, count, scratch.data());
  const Source source{scratch.data(), static_cast<std::int32_t>(image.height), static_cast<std::int32_t>(image.width)};
  std::uint32_t packed_fill = 0, packed[block];
  pack_pixels<channels>(fill.data(), 1, &packed_fill);
  for (std::int64_t y = 0; y < image.height; ++y)
    for (std::int64_t x = 0; x < image.width; x += block) {
      const auto some = static_cast<int>(std::min<std::int64_t>(block, image.width - x));
      transform_one(map, source, static_cast<double>(x) + 0.5, static_cast<double>(y) + 0.5, some, packed_fill, packed);
      unpack_pixels<channels>(packed, some, image.row(y) + x * channels);
    }
}

}  // namespace

Affine rotation(const ImageView& image, double degrees) {
  double angle = std::fmod(degrees, 360.0);
  if (angle < 0) angle += 360.0;
  angle = -(angle * (std::numbers::pi / 180.0));
  Affine map{.xx = rounded(std::cos(angle)),
             .xy = rounded(std::sin(angle)),
             .yx = rounded(-std::sin(angle)),
             .yy = rounded(std::cos(angle))};
  const double x = static_cast<double>(image.width) / 2, y = static_cast<double>(image.height) / 2;
  map.x0 = map.xx * -x + map.xy * -y + x;
  map.y0 = map.yx * -x + map.yy * -y + y;
  return map;
}

void transform(const Affine& map, ResizeFilter filter, std::span<const std::uint8_t> fill, const ImageView& image,
               std::span<std::uint32_t> scratch) {
  if (image.channels == 1)
    transform_image<1>(map, filter, fill, image, scratch);
  else
    transform_image<3>(map, filter, fill, image, scratch);
}

}  // namespace lacuna::augment
