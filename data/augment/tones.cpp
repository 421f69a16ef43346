#include "data/augment/tones.h"

#include "data/augment/colors.h"

#include <algorithm>
#include <array>

namespace lacuna::augment {
namespace {

using Counts = std::array<std::int64_t, 256>;     // histogram of a channel
using ByteTable = std::array<std::uint8_t, 256>;  // lookup table

void map_values(const ImageView& image, auto&& formula) {
  std::uint8_t* const pixels = image.pixels;
  const std::int64_t count = image.bytes();
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) pixels[i] = formula(pixels[i]);
}

/// Maps the values of each channel by a lookup table made from the channel's histogram.
template <int channels>
void map_by_counts(const ImageView& image, ByteTable (*make)(const Counts&)) {
  // Two counters per value, because equal neighbours would stall on a single one.
  std::array<std::array<std::array<std::int32_t, 256>, channels>, 2> counters{};
  const std::int64_t pixels = image.height * image.width;
  for (std::int64_t i = 0; i < pixels; ++i)
    for (int c = 0; c < channels; ++c) ++counters[i % 2][c][image.pixels[i * channels + c]];
  std::array<ByteTable, channels> tables;
  for (int c = 0; c < channels; ++c) {
    Counts counts;
    for (std::size_t v = 0; v < counts.size(); ++v) counts[v] = counters[0][c][v] + counters[1][c][v];
    tables[c] = make(counts);
  }
  for (std::int64_t i = 0; i < pixels; ++i)
    for (int c = 0; c < channels; ++c) {
      std::uint8_t& value = image.pixels[i * channels + c];
      value = tables[c][value];
    }
}

ByteTable identity() {
  ByteTable table;
  for (std::size_t v = 0; v < table.size(); ++v) table[v] = static_cast<std::uint8_t>(v);
  return table;
}

ByteTable spreading(const Counts& counts) {
  int low = 0, high = 255;
  while (low < 255 && counts[low] == 0) ++low;
  while (high > 0 && counts[high] == 0) --high;
  ByteTable table = identity();
  if (high <= low) return table;
  const double scale = 255.0 / (high - low), offset = -low * scale;
  for (int v = 0; v < 256; ++v)
    table[v] = static_cast<std::uint8_t>(std::clamp(static_cast<int>(v * scale + offset), 0, 255));
  return table;
}

ByteTable equalizing(const Counts& counts) {
  std::int64_t all = 0, last = 0;
  for (const std::int64_t count : counts) {
    all += count;
    if (count != 0) last = count;
  }
  ByteTable table = identity();
  const std::int64_t step = (all - last) / 255;
  if (step == 0) return table;
  std::int64_t sum = step / 2;
  for (std::size_t v = 0; v < table.size(); ++v) {
    table[v] = static_cast<std::uint8_t>(std::min<std::int64_t>(255, sum / step));
    sum += counts[v];
  }
  return table;
}

void map_channels(const ImageView& image, ByteTable (*make)(const Counts&)) {
  if (image.channels == 1)
    map_by_counts<1>(image, make);
  else
    map_by_counts<3>(image, make);
}

}  // namespace

void auto_contrast(const ImageView& image) { map_channels(image, spreading); }
void equalize(const ImageView& image) { map_channels(image, equalizing); }

void invert(const ImageView& image) {
  map_values(image, [](std::uint8_t value) { return static_cast<std::uint8_t>(255 - value); });
}

void solarize(const ImageView& image, int threshold) {
  map_values(image,
             [=](std::uint8_t value) { return static_cast<std::uint8_t>(value < threshold ? value : 255 - value); });
}

void solarize_add(const ImageView& image, int amount) {
  map_values(image, [=](std::uint8_t value) {
    return static_cast<std::uint8_t>(value < 128 ? std::min(255, value + amount) : value);
  });
}

void posterize(const ImageView& image, int bits) {
  if (bits >= 8) return;
  const auto mask = static_cast<std::uint8_t>(0xFF00 >> std::max(bits, 0));
  map_values(image, [=](std::uint8_t value) { return static_cast<std::uint8_t>(value & mask); });
}

void brightness(const ImageView& image, float factor) {
  map_values(image, [=](std::uint8_t value) { return blend(0.0F, value, factor); });
}

void contrast(const ImageView& image, float factor) {
  const auto mean = static_cast<float>(static_cast<int>(mean_luma(image) + 0.5));
  map_values(image, [=](std::uint8_t value) { return blend(mean, value, factor); });
}

}  // namespace lacuna::augment
