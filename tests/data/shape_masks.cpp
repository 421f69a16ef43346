#include "data/dataset.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace lacuna {
namespace {

struct Masked {
  std::vector<std::uint8_t> pixels, mask;  // [side, side, 3], [side, side]
};

Masked read(const Dataset& dataset, std::int64_t index) {
  Sample sample;
  sample.begin(0);
  dataset.read(index, sample);
  const auto bytes = [&](FieldKind kind) {
    const Tensor& tensor = sample[find_field(dataset.info().fields, kind)->name];
    const auto* const data = tensor.data<const std::uint8_t>();
    return std::vector(data, data + tensor.count());
  };
  return {bytes(FieldKind::pixels), bytes(FieldKind::mask)};
}

TEST_CASE("shape_masks: each shape has its class in the mask, between pixels of the ground and an ignored border") {
  const auto masks = open_dataset("shape_masks", {});
  const SampleField& field = *find_target(masks->info().fields);
  REQUIRE(field.kind == FieldKind::mask);
  CHECK(field.below == std::ssize(masks->info().classes));
  const std::int64_t side = field.shape[1];
  std::array<std::int64_t, 256> counts{};
  for (std::int64_t index = 0; index < 100; ++index) {
    const Masked sample = read(*masks, index);
    for (std::size_t i = 0; i < sample.mask.size(); ++i) {
      ++counts[sample.mask[i]];
      if (static_cast<std::int64_t>(i) % side + 1 == side) continue;
      const auto [low, high] = std::minmax({sample.mask[i], sample.mask[i + 1]});
      if (low != high && low == 0) CHECK(high == field.padding);  // a border lies between
    }
  }
  for (std::size_t value = 0; value < counts.size(); ++value)
    CHECK((counts[value] > 0) == (static_cast<double>(value) < static_cast<double>(field.below) ||
                                  static_cast<double>(value) == field.padding));
  CHECK(counts[0] > 100 * side * side / 3);
}

TEST_CASE("shape_masks: a sample is that of its seed, split and index; other sizes show the same scene") {
  const auto masks = open_dataset("shape_masks", {}), reseeded = open_dataset("shape_masks", {.seed = 2});
  CHECK(read(*masks, 7).pixels == read(*open_dataset("shape_masks", {}), 7).pixels);
  CHECK(read(*masks, 7).pixels != read(*reseeded, 7).pixels);
  const auto large = open_dataset("shape_masks", {.image_size = 192});
  const Masked small = read(*masks, 7), big = read(*large, 7);
  std::int64_t same = 0, counted = 0;
  for (std::size_t y = 0; y < 64; ++y)
    for (std::size_t x = 0; x < 64; ++x) {
      const std::uint8_t a = small.mask[y * 64 + x], b = big.mask[(3 * y + 1) * 192 + 3 * x + 1];
      if (a == 255 || b == 255) continue;
      ++counted;
      same += a == b ? 1 : 0;
    }
  CHECK(same == counted);
}

TEST_CASE("shape_masks: mean and deviation are those of the images") {
  const auto masks = open_dataset("shape_masks", {});
  std::array<double, 3> sum{}, squares{};
  double count = 0;
  for (std::int64_t index = 0; index < 300; ++index) {
    const Masked sample = read(*masks, index);
    for (std::size_t i = 0; i < sample.pixels.size(); ++i) {
      const double value = sample.pixels[i] / 255.0;
      sum[i % 3] += value;
      squares[i % 3] += value * value;
    }
    count += static_cast<double>(sample.mask.size());
  }
  for (std::size_t c = 0; c < 3; ++c) {
    const double mean = sum[c] / count;
    CHECK(mean == doctest::Approx(masks->info().mean[c]).epsilon(0.05));
    CHECK(std::sqrt(squares[c] / count - mean * mean) == doctest::Approx(masks->info().deviation[c]).epsilon(0.05));
  }
}

}  // namespace
}  // namespace lacuna
