#include "models/io/resample.h"

#include "core/error.h"

#include <doctest/doctest.h>

#include <vector>

using namespace lacuna;

namespace {

Tensor table(std::int64_t rows, std::int64_t channels) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < rows * channels; ++i)
    values.push_back(static_cast<double>((i * 37 + 11) % 23 - 11) / 16);
  return Tensor::from(std::span<const double>(values), {1, rows, channels}, DType::f32);
}

}  // namespace

TEST_CASE("positions: resampled as timm.layers.resample_abs_pos_embed") {
  struct Case {
    std::int64_t from, to, leading, channels;
    std::vector<double> expected;  // timm 1.0.31, torch 2.15
  };
  const Case cases[] = {
      {2, 4, 1, 2, {0.0,      -0.5625,   0.356618,  -0.332721, 0.448923,  -0.240415, 0.631959, -0.057379, 0.724265,
                    0.034926, 0.116623,  -0.148109, 0.208929,  -0.055804, 0.391964,  0.127232, 0.48427,   0.219538,
                    -0.35927, 0.217962,  -0.266964, 0.310268,  -0.083929, 0.493304,  0.008377, 0.585609,  -0.599265,
                    0.402573, -0.506959, 0.494879,  -0.323923, 0.677915,  -0.231618, 0.770221}},
      {4, 3, 0, 1, {0.011871, -0.20222, 0.01157, 0.304946, 0.120832, -0.10494, 0.237843, -0.189495, -0.153747}},
      {3, 5, 1, 1, {0.0,       -0.726348, -0.28198, 0.331368, 0.010199, -0.273585, -0.16278,  0.023331, 0.236007,
                    -0.154384, -0.438169, 0.667453, 0.452892, 0.0625,   -0.327892, -0.542453, 0.563169, 0.279384,
                    -0.111007, 0.101669,  0.28778,  0.398585, 0.1148,   -0.206368, 0.406981,  0.851348}},
  };
  for (const Case& one : cases) {
    const Tensor resampled =
        resample_positions(table(one.from * one.from + one.leading, one.channels), one.to, one.leading);
    const std::vector<double> values = resampled.to_vector();
    REQUIRE(values.size() == one.expected.size());
    for (std::size_t i = 0; i < values.size(); ++i) CHECK(values[i] == doctest::Approx(one.expected[i]).epsilon(2e-6));
  }
}

TEST_CASE("positions: a rectangle's rows and columns are resampled as those of squares") {
  constexpr std::int64_t from = 4, height = 3, width = 6;
  for (const bool along_rows : {true, false}) {
    const Tensor table = Tensor::empty({1, from * from, 1}, DType::f32, Device::cpu);
    for (std::int64_t i = 0; i < table.count(); ++i) {
      const auto place = static_cast<float>(along_rows ? i / from : i % from);
      table.data<float>()[i] = place * place - 3 * place;
    }
    const std::vector<double> rectangle = resample_positions(table, {height, width}, 0).to_vector();
    const std::int64_t side = along_rows ? height : width;
    const std::vector<double> square = resample_positions(table, side, 0).to_vector();
    REQUIRE(rectangle.size() == height * width);
    for (std::int64_t y = 0; y < height; ++y)
      for (std::int64_t x = 0; x < width; ++x)
        CHECK(rectangle[static_cast<std::size_t>(y * width + x)] ==
              doctest::Approx(square[static_cast<std::size_t>(along_rows ? y * side : x)]));
  }
}

TEST_CASE("positions: only square grids are resampled") {
  CHECK(square_side(16) == 4);
  CHECK(square_side(15) == 0);
  CHECK(square_side(0) == 0);
  CHECK_THROWS_AS(resample_positions(table(6, 1), 3, 0), Error);
}
